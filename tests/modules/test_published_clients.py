"""Requests for visitors' rules exactly as published clients of this kind of service send them, and the answers."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.transports import Client

HEADERS = {"enabled": True, "add": {"X-A": "b"}, "remove": ["X-B"]}
CIRCUIT = {
    "enabled": True,
    "tripped_duration": 10,
    "rolling_window": 10,
    "num_buckets": 10,
    "volume_threshold": 10,
    "error_threshold_percentage": 0.5,
}
WEBHOOKS = {"enabled": True, "provider": "GITHUB", "secret": "very secret"}
OF_ROUTES: Mapping[str, dict[str, Any]] = {
    "request_headers": HEADERS,
    "response_headers": HEADERS,
    "compression": {"enabled": True},
    "circuit_breaker": CIRCUIT,
    "webhook_verification": WEBHOOKS,
}
TEXTS = {"description": "", "metadata": ""}  # sent although they are empty


def create_route(admin: Client) -> str:
    edge = admin.create("/edges/https", {**TEXTS, "hostports": ["a.tunnels.localhost:443"]})["id"]
    body = {"match_type": "path_prefix", "match": "/", **TEXTS}
    return f"/edges/https/{edge}/routes/{admin.create(f'/edges/https/{edge}/routes', body)['id']}"


@pytest.mark.parametrize("name", OF_ROUTES)
def test_a_module_is_answered_with_the_fields_of_its_type(admin: Client, name: str) -> None:
    path = f"{create_route(admin)}/{name}"
    for answer in (admin.put(path, OF_ROUTES[name]), admin.get(path)):
        assert (answer.status, answer.json) == (200, OF_ROUTES[name])
    assert admin.delete(path).status == 204


def test_policies_and_rules_are_answered_with_the_fields_of_their_types(admin: Client) -> None:
    policy = admin.create("/ip_policies", {"description": "office", "metadata": "m"})
    assert policy.keys() == {"id", "uri", "created_at", "description", "metadata"}
    assert admin.patch(f"/ip_policies/{policy['id']}", {"description": "home"}).json == {
        **policy,
        "description": "home",
    }
    rule = admin.create(
        "/ip_policy_rules", {**TEXTS, "cidr": "192.0.2.0/24", "ip_policy_id": policy["id"], "action": "allow"}
    )
    assert rule.keys() == {*policy, "cidr", "ip_policy", "action"}
    path_of_rule = f"/ip_policy_rules/{rule['id']}"
    reference = {"id": policy["id"], "uri": policy["uri"]}
    assert rule["ip_policy"] == reference
    expected = {**rule, "cidr": "198.51.100.0/24"}
    assert admin.patch(path_of_rule, {"cidr": "198.51.100.0/24"}).json == expected
    assert admin.get("/ip_policy_rules").json["ip_policy_rules"] == [expected]
    assert admin.get("/ip_policies").json["ip_policies"] == [{**policy, "description": "home"}]

    parents = [
        create_route(admin),
        *(f"/edges/{kind}/{admin.create(f'/edges/{kind}', TEXTS)['id']}" for kind in ("tcp", "tls")),
    ]
    for parent in parents:
        path = f"{parent}/ip_restriction"
        for answer in (admin.put(path, {"enabled": True, "ip_policy_ids": [policy["id"]]}), admin.get(path)):
            assert (answer.status, answer.json) == (200, {"enabled": True, "ip_policies": [reference]})
        assert admin.delete(path).status == 204
    assert admin.delete(path_of_rule).status == admin.delete(f"/ip_policies/{policy['id']}").status == 204
