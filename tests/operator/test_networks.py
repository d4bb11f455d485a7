"""Networks that the operator blocks, with the audit events."""

import json

import pytest

from tests.operator.commands import Output, expect_failure, run_without_errors


def test_a_network_is_blocked_until_it_is_unblocked_and_the_operators_trail_tells_why(capsys: Output) -> None:
    assert run_without_errors(capsys, "networks", "block", "192.0.2.9/24", "--reason", "phishing\x1b") == [
        "192.0.2.0/24 is blocked"
    ]
    assert run_without_errors(capsys, "networks", "block", "2001:db8::1") == ["2001:db8::1/128 is blocked"]
    blocks = [json.loads(line) for line in run_without_errors(capsys, "networks", "list", "--json")]
    assert [(block["network"], block["reason"]) for block in blocks] == [
        ("192.0.2.0/24", "phishing"),
        ("2001:db8::1/128", ""),
    ]
    assert run_without_errors(capsys, "--as", "ann", "networks", "unblock", "192.0.2.0/24", "--reason", "x" * 300) == []
    assert [line.split()[0] for line in run_without_errors(capsys, "networks", "list")] == ["2001:db8::1/128"]

    events = [json.loads(line) for line in run_without_errors(capsys, "audit", "list", "--json")]
    assert [(event["action"], event["resource_id"], event["details"]["reason"]) for event in events] == [
        ("network_block.delete", "192.0.2.0/24", "x" * 255),
        ("network_block.create", "2001:db8::1/128", ""),
        ("network_block.create", "192.0.2.0/24", "phishing"),
    ]
    assert events[0]["actor"]["name"] == "ann"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["block", "here"], "here is not a network, for example 192.0.2.0/24 or 2001:db8::/32."),
        (["block", "0.0.0.0/0"], "0.0.0.0/0 is too large: a blocked network can be a /8 or smaller."),
        (["unblock", "192.0.2.0/24"], "192.0.2.0/24 is not blocked: 'networks list' shows the blocked networks."),
    ],
)
def test_what_is_no_network_is_not_blocked(words: list[str], sentence: str) -> None:
    assert expect_failure("networks", *words) == sentence
