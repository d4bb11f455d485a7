"""Bodies as large as they may be: what is accepted comes back whole, through every transport."""

import json

from chalicelib.http.messages import MAX_BYTES
from tests.transports import Client

RULE = {"name": "n", "expressions": ["req.headers['x'] == '…'"] * 100, "actions": [{"type": "deny"}]}


def policy(rules: int) -> str:
    return json.dumps({"inbound": [RULE] * rules})


def test_a_large_policy_comes_back_as_it_was_sent(client: Client) -> None:
    edge, value = client.create("/edges/tcp", {}), policy(38)
    assert 110 * 1024 < len(value.encode()) <= 128 * 1024
    address = f"/edges/tcp/{edge['id']}/traffic_policy"
    put = client.put(address, {"value": value})
    assert (put.status, put.json) == (200, {"enabled": True, "value": value})
    assert client.get(address).json == put.json


def test_a_body_of_exactly_the_limit_is_read(client: Client) -> None:
    answer = client.post("/edges/tls", b'{"metadata": "whole"}'.ljust(MAX_BYTES))
    assert (answer.status, answer.json["metadata"]) == (201, "whole")
