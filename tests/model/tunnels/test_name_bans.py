"""Names and patterns that the operator bans."""

import json

import pytest

from chalicelib import __main__ as operator
from chalicelib.model.names import bans, base_names
from chalicelib.model.tunnels import name_bans, online_tunnels
from chalicelib.storage.records.unique_keys import Taken
from tests.transports import Client
from tests.tunnels import NAME, OTHER, open_agent_tunnel

PATTERN_RULES = [
    ("*b*", "*b* must have at least 3 characters other than '*'."),
    ("*bank_*", "*bank_* must be a pattern of host names, for example *bank* or *.bank.example."),
    ("*localhost*", "*localhost* must not ban every name below tunnels.localhost."),
    ("*.tunnels.localhost", "*.tunnels.localhost must not ban every name below tunnels.localhost."),
]


Output = pytest.CaptureFixture[str]


def list_tunnel_ids(gateway: str = "gw-1") -> list[str]:
    return [tunnel.id for tunnel in online_tunnels.read_tunnels_of_gateway(gateway)]


def online(account: str) -> list[str]:
    return [item.id for item in online_tunnels.list_online(account)]


def test_a_banned_name_ends_its_tunnel_and_is_had_by_none_until_it_is_allowed(admin: Client, capsys: Output) -> None:
    open_agent_tunnel(admin.account)
    operator.main(["names", "ban", NAME.upper()])
    operator.main(["names", "ban", NAME])
    assert (online(admin.account), list_tunnel_ids()) == ([], [])
    with pytest.raises(Taken):
        open_agent_tunnel(admin.account)
    assert name_bans.is_banned(NAME)
    open_agent_tunnel(admin.account, name=OTHER)
    operator.main(["names", "list"])
    assert capsys.readouterr().out == f"{NAME}\n"
    operator.main(["names", "allow", NAME])
    open_agent_tunnel(admin.account)
    for arguments, sentence in (
        (["allow", NAME], f"The name {NAME} is not banned."),
        (["ban", "demo"], "demo is not a complete host name, for example demo.tunnels.localhost."),
    ):
        with pytest.raises(SystemExit) as error:
            operator.main(["names", *arguments])
        assert error.value.code == sentence


@pytest.mark.parametrize(("pattern", "sentence"), PATTERN_RULES)
def test_a_pattern_that_bans_too_much_is_refused(pattern: str, sentence: str) -> None:
    base_names.forget_settings()  # which a process reads once
    base_names.check_given_settings("tunnels.localhost", "")
    with pytest.raises(SystemExit) as error:
        operator.main(["names", "ban", pattern])
    assert error.value.code == sentence
    assert bans.list_patterns() == []


def test_banned_patterns_are_bounded_listed_and_allowed_again_each_with_an_event(capsys: Output) -> None:
    for number in range(bans.MAX_PATTERNS):
        bans.ban(f"*bad{number}*")
    operator.main(["names", "ban", "*BAD7*", "--reason", "once more"])
    with pytest.raises(SystemExit) as error:
        operator.main(["names", "ban", "*bank*"])
    assert error.value.code == "100 patterns are banned already, the maximum: remove one with 'names allow' first."
    operator.main(["names", "allow", "*bad7*"])
    operator.main(["names", "ban", NAME])
    operator.main(["names", "list"])
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0], len(lines), "*bad7*" in lines) == (NAME, 100, False)
    operator.main(["names", "allow", NAME])
    operator.main(["audit", "list", "--json"])
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(event["action"], event["resource_id"], event["details"]["reason"]) for event in events[:4]] == [
        ("name_ban.delete", NAME, ""),
        ("name_ban.create", NAME, ""),
        ("name_ban.delete", "*bad7*", ""),
        ("name_ban.create", "*bad7*", "once more"),
    ]
    with pytest.raises(SystemExit) as unknown:
        operator.main(["names", "allow", "*bad7*"])
    assert unknown.value.code == "The name *bad7* is not banned."


@pytest.mark.parametrize(
    ("name", "pattern", "is_banned"),
    [
        ("mybank.tunnels.localhost", "*bank*", True),
        ("my.bank.example", "*bank*", True),
        ("bank.example", "*.bank.example", False),
        ("login.bank.example", "*.bank.example", True),
        ("*.bank.example", "*.bank.example", True),
        ("x.notabank.example", "*.bank.example", False),
        ("demo.tunnels.localhost", "*bank*", False),
        ("ba.nk.tunnels.localhost", "*ba.k*", False),
        ("a" * 60 + ".example", "*a*a*a*a*a*a*a*a*a*a*b", False),
    ],
)
def test_a_star_stands_for_any_characters_and_nothing_else_for_another(
    name: str, pattern: str, is_banned: bool
) -> None:
    assert bans.matches(name, ["*other*", pattern]) is is_banned
