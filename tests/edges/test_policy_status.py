"""The status of a TCP edge whose traffic policy cannot be enforced, over HTTP."""

import json
from typing import Any

from chalicelib.model.edges import edge_status
from tests.transports import Client

HOSTPORT = "tunnels.localhost:20000"
DENY = {"type": "deny"}


def state(client: Client, address: str) -> tuple[str, str]:
    """Return state and error of the edge's hostport, which waits for a trial if the records do not refuse it."""
    edge_status.announce("one", lease=60)
    (hostport,) = client.get(f"{address}/status").json["hostports"]
    return hostport["state"], hostport["error"]


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
        ({"value": wrong, "enabled": False}, ("waiting", "")),
        (
            {"value": policy(actions=[DENY, {"type": "log"}])},
            ("refused", "inbound[1].actions[1]: log is not supported by this version."),
        ),
        ({"value": policy(expressions=["conn.client_ip == '10.0.0.1'"])}, ("waiting", "")),
    ):
        admin.put(f"{address}/traffic_policy", value)
        assert state(admin, address) == expected
