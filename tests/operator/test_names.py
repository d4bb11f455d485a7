"""Names that the operator bans, with the audit events."""

import json
import socket

from chalicelib.model.audit.reading import page
from tests.operator.commands import Output, created, said
from tests.tunnels import opened


def test_the_operators_trail_tells_who_banned_a_name_and_why_and_who_allowed_it_again(capsys: Output) -> None:
    name, account = "demo.tunnels.localhost", created(capsys)[0]
    opened(account, name=name)
    assert said(capsys, "--as", "ann", "names", "ban", name, "--reason", "phishing\x1b") == []
    assert said(capsys, "--as", "bob", "names", "allow", name) == []
    events = [json.loads(line) for line in said(capsys, "audit", "list", "--json")]
    told = [(it["action"], it["resource_id"], it["details"], it["actor"]["name"], it["source_ip"]) for it in events]
    host = socket.gethostname()
    assert told == [
        ("name_ban.delete", name, {"reason": ""}, "bob", host),
        ("name_ban.create", name, {"reason": "phishing"}, "ann", host),
    ]
    ended = page(account, before=None, count=1)[0][0].body
    assert (ended["action"], ended["details"]["reason"], ended["actor"]["name"]) == ("tunnel.delete", "phishing", "ann")
    assert ended["operation_id"] == events[1]["operation_id"] != events[0]["operation_id"]
