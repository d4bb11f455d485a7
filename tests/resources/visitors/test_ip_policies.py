"""IP policies and their rules: defaults, limits, and what is deleted together."""

from typing import Any

import pytest

from chalicelib.model.base import kinds
from chalicelib.model.edges import ip_policies
from chalicelib.model.edges.ip_policies import ServedPolicy
from chalicelib.model.edges.served import decode_part
from chalicelib.storage.client import aws, dynamodb
from chalicelib.storage.records import change_log, items, table
from chalicelib.storage.records.change_log import ItemKey
from tests.refusals import assert_refused
from tests.transports import Client

POLICIES, RULES = "/ip_policies", "/ip_policy_rules"


def read_served_rules(client: Client, id: str) -> list[str]:
    """Return the rules of a policy as the edge reads them."""
    item = table.read(items.scope(client.account, kinds.IP_POLICIES.path), id)
    assert item is not None
    policy = decode_part(item)
    assert isinstance(policy, ServedPolicy)
    assert policy.rules is not None
    return [
        *(f"allow {network}" for network in policy.rules.allow),
        *(f"deny {network}" for network in policy.rules.deny),
    ]


def test_the_edge_reads_the_rules_of_a_policy(admin: Client) -> None:
    id = admin.create(POLICIES, {"description": "office"})["id"]
    assert read_served_rules(admin, id) == []
    tag = admin.get(f"{POLICIES}/{id}").headers["etag"]
    policy_rules = [
        admin.create(RULES, {"ip_policy_id": id, "cidr": cidr, "action": action})
        for cidr, action in (("192.0.2.0/24", "allow"), ("::FFFF:192.0.2.9", "deny"), ("2001:DB8::/32", "allow"))
    ]
    assert policy_rules[1]["cidr"] == "::FFFF:192.0.2.9"
    assert policy_rules[1]["ip_policy"] == {"id": id, "uri": f"http://localhost{POLICIES}/{id}"}
    assert admin.get(f"{POLICIES}/{id}").headers["etag"] != tag
    assert read_served_rules(admin, id) == ["allow 192.0.2.0/24", "allow 2001:db8::/32", "deny 192.0.2.9/32"]
    answer = admin.patch(f"{RULES}/{policy_rules[0]['id']}", {"cidr": "192.0.2.128/25", "description": "d"})
    assert (answer.status, answer.json["cidr"]) == (200, "192.0.2.128/25")
    assert (
        admin.patch(f"{RULES}/{policy_rules[0]['id']}", {"cidr": "", "description": ""}).json["cidr"]
        == "192.0.2.128/25"
    )
    assert admin.delete(f"{RULES}/{policy_rules[2]['id']}").status == 204
    assert read_served_rules(admin, id) == ["allow 192.0.2.128/25", "deny 192.0.2.9/32"]


def test_edges_are_told_of_each_change(admin: Client) -> None:
    id = admin.create(POLICIES, {})["id"]
    item_key = ItemKey(items.scope(admin.account, kinds.IP_POLICIES.path), id)
    for change in (
        lambda: admin.create(RULES, {"ip_policy_id": id, "cidr": "192.0.2.1", "action": "allow"}),
        lambda: admin.patch(f"{RULES}/{rule_of(admin)}", {"cidr": "192.0.2.2"}),
        lambda: admin.delete(f"{RULES}/{rule_of(admin)}"),
        lambda: admin.delete(f"{POLICIES}/{id}"),
    ):
        entry_ids = {entry.id for entry in change_log.read_since(0)}
        change()
        assert [entry.item_keys for entry in change_log.read_since(0) if entry.id not in entry_ids] == [(item_key,)]


def rule_of(admin: Client) -> str:
    (rule,) = admin.get(RULES).json["ip_policy_rules"]
    return str(rule["id"])


def test_a_policy_is_deleted_with_its_rules(admin: Client) -> None:
    other_policy = admin.create(POLICIES, {})["id"]
    other = admin.create(RULES, {"ip_policy_id": other_policy, "cidr": "::1", "action": "allow"})
    id = admin.create(POLICIES, {})["id"]
    for cidr, action in (("10.0.0.1", "deny"), ("0.0.0.0/0", "allow"), ("::/0", "allow")):
        admin.create(RULES, {"ip_policy_id": id, "cidr": cidr, "action": action})
    assert admin.delete(f"{POLICIES}/{id}").status == 204
    assert admin.get(f"{POLICIES}/{id}").status == 404
    assert admin.get(RULES).json["ip_policy_rules"] == [other]
    events = [
        event
        for event in admin.get("/audit_events?action=ip_*&limit=20").json["audit_events"]
        if "delete" in event["action"]
    ]
    assert [event["action"] for event in events] == ["ip_policy.delete", *["ip_policy_rule.delete"] * 3]
    assert [event["details"]["action"] for event in events[1:]] == ["deny", "allow", "allow"]


@pytest.mark.parametrize("limit", range(6))
def test_a_deletion_that_stops_half_way_closes_and_can_be_repeated(
    admin: Client, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    id = admin.create(POLICIES, {})["id"]
    for cidr, action in (("10.0.0.1", "deny"), ("10.0.0.0/8", "allow"), ("192.0.2.1", "deny"), ("::/0", "allow")):
        admin.create(RULES, {"ip_policy_id": id, "cidr": cidr, "action": action})
    transact, count = dynamodb.transact, 0

    def stop(writes: Any) -> None:
        nonlocal count
        count += 1
        if count > limit:
            raise aws.Unavailable("DynamoDB")
        transact(writes)

    with monkeypatch.context() as stopping:
        stopping.setattr(dynamodb, "transact", stop)
        assert admin.delete(f"{POLICIES}/{id}").status == (503 if limit < 5 else 204)

    if limit < 5:
        rules = ["allow 10.0.0.0/8", "allow ::/0", "deny 10.0.0.1/32", "deny 192.0.2.1/32"]
        assert read_served_rules(admin, id) == rules[limit:]  # those that allow are removed first
        assert admin.delete(f"{POLICIES}/{id}").status == 204
    assert admin.get(f"{POLICIES}/{id}").status == 404
    assert admin.get(RULES).json["ip_policy_rules"] == []


def test_policies_and_rules_have_limits(admin: Client) -> None:
    ids = [admin.create(POLICIES, {})["id"] for _ in range(ip_policies.MAX_POLICIES)]
    assert_refused(admin.post(POLICIES, {}), 409, "conflict", "An account has at most 100 IP policies.", {})
    for number in range(ip_policies.MAX_RULES):
        rule = admin.create(RULES, {"ip_policy_id": ids[0], "cidr": f"10.0.0.{number}", "action": "allow"})
    one_more = {"ip_policy_id": ids[0], "cidr": "::1", "action": "allow"}
    full = "The policy already has 100 rules, the maximum: delete one first."
    assert_refused(admin.post(RULES, one_more), 409, "conflict", full, {})
    admin.delete(f"{RULES}/{rule['id']}")
    admin.create(RULES, one_more)


def test_a_policy_in_use_stays_if_references_are_strict(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRICT_REFERENCES", "true")
    id = admin.create(POLICIES, {})["id"]
    rule = admin.create(RULES, {"ip_policy_id": id, "cidr": "::1", "action": "allow"})
    edge = admin.create("/edges/tls", {"ip_restriction": {"ip_policy_ids": [id]}})
    refusal = admin.delete(f"{POLICIES}/{id}")
    assert (refusal.status, edge["id"] in refusal.text) == (409, True)
    assert admin.get(f"{RULES}/{rule['id']}").json == rule
    assert admin.delete(f"/edges/tls/{edge['id']}/ip_restriction").status == 204
    assert admin.delete(f"{POLICIES}/{id}").status == 204
