"""The status of a TCP edge whose traffic policy cannot be enforced, over HTTP."""

import json
from typing import Any

from chalicelib.model.edges import edge_status
from chalicelib.model.edges.edge_status import Trial
from tests.transports import Client

HOSTPORT = "tunnels.localhost:20000"
DENY = {"type": "deny"}


def state(client: Client, address: str) -> tuple[str, str]:
    """Return state and error of the edge's hostport after a trial of the current revision."""
    edge_status.announce("one", lease=60)
    revision = int(client.get(address).headers["etag"].strip('"').partition("-")[0])
    trial = Trial(revision, "2036-01-01T00:00:09Z", "one")
    edge_status.write_trial(client.account, address.rpartition("/")[2], trial)
    found = client.get(f"{address}/status").json
    assert found["state"] == found["hostports"][0]["state"]
    return found["state"], found["hostports"][0]["error"]


def policy(**rule: Any) -> str:
    return json.dumps({"inbound": [{"actions": [DENY], "expressions": ["false"]}, {"actions": [DENY], **rule}]})


def test_a_policy_outside_of_the_grammar_is_refused_with_rule_and_place(admin: Client) -> None:
    group = admin.create("/backends/tunnel_group", {"labels": {"app": "web"}})["id"]
    body = {"hostports": [HOSTPORT], "backend": {"backend_id": group}}
    wrong = policy(expressions=["true", "conn.geo.country_code == 'DE'"])
    address = f"/edges/tcp/{admin.create('/edges/tcp', {**body, 'traffic_policy': {'value': wrong}})['id']}"
    error = "inbound[1].expressions[1]: conn.geo.country_code is not supported by this version."
    assert state(admin, address) == ("refused", error)

    for value, expected in (
        ({"value": wrong, "enabled": False}, ("live", "")),
        (
            {"value": policy(actions=[DENY, {"type": "log"}])},
            ("refused", "inbound[1].actions[1]: log is not supported by this version."),
        ),
        ({"value": policy(expressions=["conn.client_ip == '10.0.0.1'"])}, ("live", "")),
    ):
        admin.put(f"{address}/traffic_policy", value)
        assert state(admin, address) == expected
