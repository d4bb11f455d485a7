"""Names that the operator bans, with the audit events."""

import json
import socket

from chalicelib.model.audit.reading import read_page
from tests.operator.commands import Output, create_account, run_without_errors
from tests.tunnels import open_agent_tunnel


def test_the_operators_trail_tells_who_banned_a_name_and_why_and_who_allowed_it_again(capsys: Output) -> None:
    name, account = "demo.tunnels.localhost", create_account(capsys)[0]
    open_agent_tunnel(account, name=name)
    assert run_without_errors(capsys, "--as", "ann", "names", "ban", name, "--reason", "phishing\x1b") == []
    assert run_without_errors(capsys, "--as", "bob", "names", "allow", name) == []
    events = [json.loads(line) for line in run_without_errors(capsys, "audit", "list", "--json")]
    trail = [
        (event["action"], event["resource_id"], event["details"], event["actor"]["name"], event["source_ip"])
        for event in events
    ]
    host = socket.gethostname()
    assert trail == [
        ("name_ban.delete", name, {"reason": ""}, "bob", host),
        ("name_ban.create", name, {"reason": "phishing"}, "ann", host),
    ]
    end_event = read_page(account, before=None, count=1)[0][0].body
    assert (end_event["action"], end_event["details"]["reason"], end_event["actor"]["name"]) == (
        "tunnel.delete",
        "phishing",
        "ann",
    )
    assert end_event["operation_id"] == events[1]["operation_id"] != events[0]["operation_id"]
