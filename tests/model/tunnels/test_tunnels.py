"""Names of tunnels, what a gateway carries, and what the operator may do with both."""

import json

import pytest

from chalicelib import __main__ as operator
from chalicelib import clock, ids
from chalicelib.model.names import bans, base_names
from chalicelib.model.tunnels import gateways, name_bans, online_tunnels, tunnels
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import AgentTunnel, ServedTunnel
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, Write
from chalicelib.storage.records import table
from chalicelib.storage.records.unique_keys import Taken
from tests.queries import calls
from tests.transports import Client
from tests.tunnels import NAME, OTHER, opened

Output = pytest.CaptureFixture[str]


def online(account: str) -> list[str]:
    return [item.id for item in online_tunnels.list_online(account)]


def carried(gateway: str = "gw-1") -> list[str]:
    return [tunnel.id for tunnel in online_tunnels.tunnels_of_gateway(gateway) if tunnel.is_live]


def test_no_response_shows_the_gateway_and_the_credential(admin: Client) -> None:
    id = opened(admin.account)
    assert not {"gateway", "credential"} & admin.get(f"/tunnels/{id}").json.keys()
    assert "gw-1" not in admin.get("/tunnels").text


def test_what_was_carried_before_there_was_a_protocol_is_https(admin: Client) -> None:
    id = opened(admin.account)
    for scope, lacking in (
        (f"{admin.account}#/tunnels", ["proxy_protocol"]),
        ("edge#/gateways/gw-1/tunnels", ["proto", "proxy_protocol"]),
    ):
        sets = {f"body.{field}": None for field in lacking}
        dynamodb.do(Write.update(scope, id, Condition("attribute_exists(#id)"), sets=sets))
    now = ServedTunnel(admin.account, id, "gw-1", NAME)
    assert (online_tunnels.tunnels_of_gateway("gw-1"), online_tunnels.read(admin.account, id)) == ([now], now)


def test_a_name_is_had_by_one_tunnel(admin: Client, stranger: Client) -> None:
    id = opened(admin.account)
    with pytest.raises(Taken):
        opened(stranger.account)
    with pytest.raises(Taken):
        opened(admin.account, credential="sshcr_2")
    with pytest.raises(Taken):
        opened(stranger.account, credential="sshcr_1")
    assert (online(admin.account), online(stranger.account), carried()) == ([id], [], [id])


def test_a_tunnel_without_a_credential_leaves_its_name_to_no_other(admin: Client) -> None:
    opened(admin.account, credential="")
    with pytest.raises(Taken):
        opened(admin.account, credential="")


def test_a_closed_tunnel_leaves_no_name_and_nothing_carried(admin: Client, stranger: Client) -> None:
    id = opened(admin.account)
    assert tunnels.close_tunnel(admin.account, id)
    assert carried() == []
    assert online(stranger.account) == []
    opened(stranger.account)


def test_a_tunnel_whose_lease_has_ended_leaves_its_name_to_the_next(admin: Client, stranger: Client) -> None:
    expired = opened(admin.account, lease=0)
    assert carried() == []
    opened(stranger.account)
    assert not tunnels.renew_lease(admin.account, expired, lease=60)


def test_a_credential_takes_its_own_name_over_and_the_first_tunnel_cannot_be_renewed(admin: Client) -> None:
    first = opened(admin.account)
    second = opened(admin.account, gateway="gw-2")
    assert online(admin.account) == [second]
    lost = tunnels.renew_leases([ServedTunnel(admin.account, first, "gw-1", NAME, 0)], lease=60)
    assert lost == {first}
    assert tunnels.renew_leases([ServedTunnel(admin.account, second, "gw-2", NAME, 0)], lease=60) == set()


def ended(client: Client) -> list[tuple[str, str]]:
    """Return the ends of tunnels that an account's events tell: of which, and by whom."""
    found = client.get("/audit_events?action=tunnel.delete").json["audit_events"]
    return [(event["resource_id"], event["actor"]["type"]) for event in found]


def test_a_tunnel_whose_name_is_taken_over_has_its_end_told_once(admin: Client) -> None:
    first = opened(admin.account)
    second = opened(admin.account, gateway="gw-2")
    assert ended(admin) == [(first, "edge")]
    (event,) = admin.get(f"/audit_events?resource_id={first}&action=tunnel.delete").json["audit_events"]
    seconds = event["details"]["seconds"]
    told = {"credential": "sshcr_1", "name": NAME, "public_url": f"https://{NAME}", "seconds": seconds}
    assert (event["details"], int(seconds) < 30) == (told, True)
    assert (event["revision"], carried()) == (2, [])
    assert not tunnels.close_tunnel(admin.account, first, gateway="gw-1", usage=tunnels.Traffic(1, 2, 3))
    assert tunnels.close_tunnel(admin.account, second)
    assert [id for id, _ in ended(admin)] == [second, first]


@pytest.mark.parametrize("taking", ["a tunnel", "a reservation", "a ban"])
def test_a_lapsed_tunnel_whose_name_is_taken_has_its_end_told_where_it_was(
    admin: Client, stranger: Client, taking: str
) -> None:
    lapsed = opened(admin.account, lease=0)
    if taking == "a tunnel":
        opened(stranger.account, gateway="gw-2")
    elif taking == "a reservation":
        stranger.create("/reserved_domains", {"domain": NAME})
    else:
        operator.main(["names", "ban", NAME])
    assert ended(admin) == [(lapsed, "edge")]
    assert (ended(stranger), online_tunnels.tunnels_of_gateway("gw-1")) == ([], [])
    had = table.read(f"edge#/served_names/{NAME}", lapsed)
    assert had
    assert had.body["ended_at"] >= had.body["started_at"]


def test_more_leases_than_a_transaction_holds_are_renewed_each_by_itself(admin: Client) -> None:
    ids_ = [opened(admin.account, name=f"n{number}.tunnels.localhost", lease=600) for number in range(60)]
    lost = {ids_[0], ids_[59]}
    for id in lost:
        tunnels.close_tunnel(admin.account, id)
    leases = [ServedTunnel(admin.account, id, "gw-1", "", 0) for id in ids_]
    assert tunnels.renew_leases(leases, lease=6000) == lost
    ends = {tunnel.expires for tunnel in online_tunnels.tunnels_of_gateway("gw-1")}
    assert len(online_tunnels.tunnels_of_gateway("gw-1")) == 58
    assert min(ends) > clock.seconds() + 5000


def test_gateways_are_up_while_they_say_so(admin: Client) -> None:
    gateway, lapsed = Gateway("gw-1", "192.0.2.1", 4433), Gateway("gw-2", "192.0.2.2", 4433)
    gateways.announce(gateway, lease=60)
    gateways.announce(lapsed, lease=0)
    assert gateways.list_gateways() == [(lapsed, False), (gateway, True)]
    assert (gateways.read("gw-1"), gateways.read("gw-2")) == (gateway, None)
    gateways.announce(lapsed, lease=60)
    assert gateways.read("gw-2") == lapsed
    for id in ("gw-1", "gw-2", "gw-3"):
        gateways.withdraw(id)
    assert gateways.list_gateways() == []


def test_a_lapsed_lease_is_ended_with_one_event_by_whoever_notices_first(admin: Client, capsys: Output) -> None:
    lapsed, live = opened(admin.account, lease=0, name="a.tunnels.localhost"), opened(admin.account)
    assert online(admin.account) == [live]

    operator.main(["tunnels", "list"])
    assert [item.id for item in online_tunnels.remove_expired(admin.account)] == [live]

    deleted = admin.get("/audit_events?action=tunnel.delete").json["audit_events"]
    assert [(event["resource_id"], event["actor"]["type"]) for event in deleted] == [(lapsed, "edge")]
    assert carried() == [live]
    assert lapsed not in capsys.readouterr().out


def test_a_lease_of_2_0_0_is_served_renewed_and_ended(admin: Client) -> None:
    first, second = opened(admin.account, name="a.tunnels.localhost"), opened(admin.account)
    for scope in (f"{admin.account}#/tunnels", "edge#/gateways/gw-1/tunnels"):
        for id, end in ((first, clock.seconds()), (second, clock.seconds() + 60)):
            without = {"lease": None, "expires": end}
            dynamodb.do(Write.update(scope, id, Condition("attribute_exists(#lease)"), sets=without))

    assert online(admin.account) == [second]
    lost = tunnels.renew_leases([ServedTunnel(admin.account, id, "gw-1", "", 0) for id in (first, second)], lease=600)
    assert lost == {first}
    (live,) = [it for it in online_tunnels.tunnels_of_gateway("gw-1") if it.is_live]
    assert clock.seconds() + 590 < live.expires <= clock.seconds() + 600
    online_tunnels.remove_expired(admin.account)
    deleted = admin.get("/audit_events?action=tunnel.delete").json["audit_events"]
    assert [event["resource_id"] for event in deleted] == [first]


def test_the_operator_lists_and_ends_tunnels(admin: Client, capsys: Output) -> None:
    id = opened(admin.account)
    operator.main(["tunnels", "list"])
    started = admin.get(f"/tunnels/{id}").json["started_at"]
    assert capsys.readouterr().out == f"{admin.account} {id} {started} sshcr_1 https://{NAME}\n"
    operator.main(["tunnels", "end", id])
    assert (online(admin.account), carried()) == ([], [])
    for gone, sentence in ((id, f"No tunnel {id} is online."), ("tn_x", "tn_x is not the id of a tunnel (tn_…).")):
        with pytest.raises(SystemExit) as refused:
            operator.main(["tunnels", "end", gone])
        assert refused.value.code == sentence


def test_a_banned_name_ends_its_tunnel_and_is_had_by_none_until_it_is_allowed(admin: Client, capsys: Output) -> None:
    opened(admin.account)
    operator.main(["names", "ban", NAME.upper()])
    operator.main(["names", "ban", NAME])
    assert (online(admin.account), carried()) == ([], [])
    with pytest.raises(Taken):
        opened(admin.account)
    assert name_bans.is_banned(NAME)
    opened(admin.account, name=OTHER)
    operator.main(["names", "list"])
    assert capsys.readouterr().out == f"{NAME}\n"
    operator.main(["names", "allow", NAME])
    opened(admin.account)
    for arguments, sentence in (
        (["allow", NAME], f"The name {NAME} is not banned."),
        (["ban", "demo"], "demo is not a whole host name, for example demo.tunnels.localhost."),
    ):
        with pytest.raises(SystemExit) as refused:
            operator.main(["names", *arguments])
        assert refused.value.code == sentence


PATTERN_RULES = [
    ("*b*", "*b* must have at least 3 characters other than '*'."),
    ("*bank_*", "*bank_* is not a pattern of host names, for example *bank* or *.bank.example."),
    ("*localhost*", "*localhost* would ban every name below tunnels.localhost."),
    ("*.tunnels.localhost", "*.tunnels.localhost would ban every name below tunnels.localhost."),
]


@pytest.mark.parametrize(("pattern", "sentence"), PATTERN_RULES)
def test_a_pattern_that_bans_too_much_is_refused(pattern: str, sentence: str) -> None:
    base_names.forget_settings()  # which a process reads once
    base_names.check_given_settings("tunnels.localhost", "")
    with pytest.raises(SystemExit) as refused:
        operator.main(["names", "ban", pattern])
    assert refused.value.code == sentence
    assert bans.patterns() == []


def test_banned_patterns_are_bounded_listed_and_allowed_again_each_with_an_event(capsys: Output) -> None:
    for number in range(bans.MAX_PATTERNS):
        bans.ban(f"*bad{number}*")
    operator.main(["names", "ban", "*BAD7*", "--reason", "once more"])
    with pytest.raises(SystemExit) as refused:
        operator.main(["names", "ban", "*bank*"])
    assert refused.value.code == "100 patterns are banned already, the maximum."
    operator.main(["names", "allow", "*bad7*"])
    operator.main(["names", "ban", NAME])
    operator.main(["names", "list"])
    listed = capsys.readouterr().out.splitlines()
    assert (listed[0], len(listed), "*bad7*" in listed) == (NAME, 100, False)
    operator.main(["names", "allow", NAME])
    operator.main(["audit", "list", "--json"])
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(it["action"], it["resource_id"], it["details"]["reason"]) for it in events[:4]] == [
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


def test_the_hostports_of_an_edge_and_the_key_of_an_authority_lead_to_them(admin: Client) -> None:
    from chalicelib.model.edges import edges

    edge = admin.create("/edges/tcp", {"hostports": ["a.example.com:1", "b.example.com:2"]})
    account = admin.account
    assert edges.find_by_hostport(account, "a.example.com:1") == edge["id"]
    admin.patch(f"/edges/tcp/{edge['id']}", {"hostports": ["b.example.com:2", "c.example.com:3"]})
    assert edges.find_by_hostport(account, "a.example.com:1") is None
    assert edges.find_by_hostport(account, "b.example.com:2") == edge["id"]
    assert edges.find_by_hostport(account, "c.example.com:3") == edge["id"]
    assert edges.find_by_hostport("acct_other", "c.example.com:3") is None


def test_whoever_had_a_name_is_told_by_one_read_also_when_the_tunnel_has_closed(
    admin: Client, stranger: Client, capsys: Output
) -> None:
    before = clock.seconds() - 3600
    first = tunnels.open_tunnel(admin.account, _tunnel("192.0.2.1"), lease=60, name=NAME)
    tunnels.close_tunnel(admin.account, first)
    second = tunnels.open_tunnel(stranger.account, _tunnel("192.0.2.2"), lease=60, name=NAME)

    with calls() as made:
        operator.main(["tunnels", "who", NAME.upper(), "--json"])
    assert made == ["Query"]
    told = json.loads(capsys.readouterr().out)
    assert told == {
        "account": stranger.account,
        "tunnel": second,
        "credential": "sshcr_1",
        "address": "192.0.2.2",
        "client": "SSH-2.0-test",
        "gateway": "gw-1",
        "tunnel_session": "ts_1",
        "started_at": told["started_at"],
        "ended_at": "",
    }
    tunnels.close_tunnel(stranger.account, second)
    operator.main(["tunnels", "who", NAME, "--at", told["started_at"]])
    lines = capsys.readouterr().out.splitlines()
    assert f"account {stranger.account}" in lines
    assert f"tunnel {second}" in lines
    assert not any(line == "ended_at -" for line in lines)
    operator.main(["tunnels", "who", f"https://{NAME.upper()}:8443/login?next=%2F", "--at", told["started_at"]])
    assert f"tunnel {second}" in capsys.readouterr().out.splitlines()
    for name, at, sentence in (
        (OTHER, "", f"No tunnel or edge had {OTHER} at that time or before."),
        (NAME, clock.rfc3339(clock.at(before)), f"No tunnel or edge had {NAME} at that time or before."),
        (NAME, "yesterday", "--at must be an RFC 3339 time, for example 2026-01-31T12:00:00Z."),
    ):
        with pytest.raises(SystemExit) as ended:
            operator.main(["tunnels", "who", name, "--at", at])
        assert ended.value.code == sentence


def test_a_name_was_had_until_the_end_of_its_lease_where_nobody_closed_the_tunnel(
    admin: Client, capsys: Output
) -> None:
    id = tunnels.open_tunnel(admin.account, _tunnel("192.0.2.1"), lease=-5, name=NAME)
    online_tunnels.remove_expired(admin.account)
    with pytest.raises(SystemExit) as ended:
        operator.main(["tunnels", "who", NAME])
    assert str(ended.value.code).startswith(
        f"No tunnel or edge had {NAME} at that time; the last one before was {id}, until "
    )


def _tunnel(address: str) -> AgentTunnel:
    return AgentTunnel(
        tunnel_session="ts_1",
        endpoint=ids.new("ep"),
        region="eu",
        proto="https",
        public_url=f"https://{NAME}",
        forwards_to=address,
        gateway="gw-1",
        credential="sshcr_1",
        address=address,
        client="SSH-2.0-test",
    )
