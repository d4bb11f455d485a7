"""Names below TUNNEL_DOMAIN: one account's, for its edges, reservations and tunnels together."""

import json
from datetime import timedelta

import pytest

from chalicelib import __main__ as operator
from chalicelib import clock
from chalicelib.model.names import base_names, name_counts
from chalicelib.model.tunnels import online_tunnels, tunnels
from chalicelib.storage.records.unique_keys import Taken
from tests.names import TEAM, D, assert_kept, assert_taken
from tests.names_held import count_more, end_cooldowns
from tests.queries import calls
from tests.refusals import assert_invalid, assert_refused
from tests.transports import Client
from tests.tunnels import open_agent_tunnel

pytestmark = pytest.mark.usefixtures("tunnel_domain")


def online(account: str) -> list[str]:
    return [item.id for item in online_tunnels.list_online(account)]


@pytest.mark.parametrize("host", [TEAM, f"x.{TEAM}", f"*.{TEAM}", f"a.b.{TEAM}", f"TEAM.{D}"])
def test_all_below_a_label_is_the_account_s_of_whose_edges_one_listens_there(
    admin: Client, stranger: Client, host: str
) -> None:
    edge = admin.create("/edges/https", {"hostports": [f"{host}:443"]})
    for name in (TEAM, f"x.{TEAM}", f"*.{TEAM}"):
        assert_taken(stranger.post("/edges/tls", {"hostports": [f"{name}:443"]}))
    other = admin.create("/edges/tls", {"hostports": [f"y.{TEAM}:443"]})
    admin.delete(f"/edges/https/{edge['id']}")
    assert_taken(stranger.post("/edges/https", {"hostports": [f"{TEAM}:443"]}))
    admin.patch(f"/edges/tls/{other['id']}", {"hostports": [f"other.{D}:443"]})
    assert_taken(stranger.post("/edges/https", {"hostports": [f"{TEAM}:443"]}))
    end_cooldowns(admin)
    stranger.create("/edges/https", {"hostports": [f"{TEAM}:443"]})
    assert_taken(stranger.post("/edges/https", {"hostports": [f"other.{D}:443"]}))
    assert_taken(admin.post("/edges/https", {"hostports": [f"other.{D}:443"]}))


def test_elsewhere_two_accounts_may_name_one_hostport(admin: Client, stranger: Client) -> None:
    hostports = ["app.example.com:443"]
    for client in (admin, stranger):
        assert client.create("/edges/https", {"hostports": hostports})["hostports"] == hostports
        assert_taken(client.post("/edges/tls", {"hostports": hostports}))


def test_the_domain_itself_and_every_name_below_it_are_nobody_s(admin: Client) -> None:
    for host in (D, f"*.{D}"):
        for path in ("/edges/https", "/edges/tls"):
            rule = {"hostports.0": f"must have a host below {D}"}
            assert_invalid(admin.post(path, {"hostports": [f"{host}:443"]}), rule)
    assert_invalid(admin.post("/edges/tcp", {"hostports": [f"*.{D}:20000"]}), rule)


def test_a_port_of_the_domain_is_one_account_s(admin: Client, stranger: Client) -> None:
    edge = admin.create("/edges/tcp", {"hostports": [f"{D}:20000"]})
    assert_taken(stranger.post("/edges/tcp", {"hostports": [f"{D}:20000"]}))
    assert_taken(stranger.post("/edges/tcp", {"hostports": [f"{TEAM}:20000"]}))
    stranger.create("/edges/tcp", {"hostports": [f"{D}:20001"]})
    admin.delete(f"/edges/tcp/{edge['id']}")
    assert_taken(stranger.post("/edges/tcp", {"hostports": [f"{D}:20000"]}))
    end_cooldowns(admin)
    stranger.create("/edges/tcp", {"hostports": [f"{D}:20000"]})


@pytest.mark.parametrize("name", ["www", "cname"])
def test_what_the_operator_keeps_is_refused(admin: Client, name: str) -> None:
    assert_kept(admin.post("/edges/https", {"hostports": [f"x.{name}.{D}:443"]}))


def test_a_banned_name_is_refused_and_what_held_it_before_keeps_it(admin: Client, stranger: Client) -> None:
    edge = admin.create("/edges/https", {"hostports": [f"{TEAM}:443"]})
    operator.main(["names", "ban", TEAM])
    operator.main(["names", "ban", TEAM])
    assert_kept(admin.post("/edges/https", {"hostports": [f"x.{TEAM}:443"]}))
    assert_kept(stranger.post("/edges/https", {"hostports": [f"x.{TEAM}:443"]}))
    admin.delete(f"/edges/https/{edge['id']}")
    assert_kept(stranger.post("/edges/https", {"hostports": [f"x.{TEAM}:443"]}))
    operator.main(["names", "allow", TEAM])
    assert_taken(stranger.post("/edges/https", {"hostports": [f"x.{TEAM}:443"]}))
    end_cooldowns(admin)
    stranger.create("/edges/https", {"hostports": [f"x.{TEAM}:443"]})


def test_a_name_that_matches_a_banned_pattern_is_refused_like_one_that_is_banned(admin: Client) -> None:
    edge = admin.create("/edges/https", {"hostports": [f"oldbank.{D}:443"]})
    operator.main(["names", "ban", "*bank*"])
    assert_kept(admin.post("/edges/https", {"hostports": [f"my-bank.{D}:443"]}))
    assert_kept(admin.post("/edges/tls", {"hostports": ["*.bank.example:443"]}))
    for domain in (f"my-bank.{D}", "bank.example"):
        reserved = admin.post("/reserved_domains", {"domain": domain})
        assert (reserved.status, reserved.json["details"]["domain"]) == (409, base_names.OPERATOR_NAME_RULE)
    assert admin.patch(f"/edges/https/{edge['id']}", {"description": "stays"}).status == 200
    operator.main(["names", "allow", "*bank*"])
    admin.create("/edges/https", {"hostports": [f"my-bank.{D}:443"]})


def test_whose_edge_has_or_had_a_name_or_a_port_is_told_where_no_tunnel_had_it_then(
    admin: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    hostports = {"https": f"shop.{D}:443", "tls": f"*.team.{D}:443", "tcp": f"{D}:20007"}
    names = {"https": f"shop.{D}", "tls": f"x.team.{D}", "tcp": f"{D}:20007"}
    edges = {path: admin.create(f"/edges/{path}", {"hostports": [hostport]}) for path, hostport in hostports.items()}

    def read_owner(path: str, *time_options: str) -> tuple[str, str, bool]:
        operator.main(["tunnels", "who", names[path], "--json", *time_options])
        output = json.loads(capsys.readouterr().out)
        return output["account"], output["edge"], bool(output["ended_at"])

    for path, edge in edges.items():
        assert read_owner(path) == (admin.account, edge["id"], False)
    admin.delete(f"/edges/https/{edges['https']['id']}")
    admin.patch(f"/edges/tls/{edges['tls']['id']}", {"hostports": []})
    admin.delete(f"/edges/tcp/{edges['tcp']['id']}")
    for path, edge in edges.items():
        assert read_owner(path, "--at", edge["created_at"]) == (admin.account, edge["id"], True)
    tomorrow = ["--at", clock.rfc3339(clock.now() + timedelta(days=1))]
    with pytest.raises(SystemExit) as error:
        operator.main(["tunnels", "who", names["https"], *tomorrow])
    assert f"No tunnel or edge had shop.{D} at that time. {edges['https']['id']} had the name before, until " in str(
        error.value.code
    )
    again = admin.create("/edges/https", {"hostports": [hostports["https"]]})
    assert read_owner("https", *tomorrow) == (admin.account, again["id"], False)


def test_a_tunnel_and_edges_of_one_account_hold_a_name_together(admin: Client, stranger: Client) -> None:
    tunnel = open_agent_tunnel(admin.account, name=TEAM)
    assert_taken(stranger.post("/edges/https", {"hostports": [f"x.{TEAM}:443"]}))
    edge = admin.create("/edges/https", {"hostports": [f"x.{TEAM}:443"]})
    with pytest.raises(Taken):
        open_agent_tunnel(stranger.account, name=TEAM)
    tunnels.close_tunnel(admin.account, tunnel)
    with pytest.raises(Taken):
        open_agent_tunnel(stranger.account, name=TEAM)
    second = open_agent_tunnel(admin.account, name=TEAM)
    admin.delete(f"/edges/https/{edge['id']}")
    with pytest.raises(Taken):
        open_agent_tunnel(stranger.account, name=TEAM)
    tunnels.close_tunnel(admin.account, second)
    with pytest.raises(Taken):
        open_agent_tunnel(stranger.account, name=TEAM)
    end_cooldowns(admin)
    open_agent_tunnel(stranger.account, name=TEAM)


def test_a_hostport_wins_over_a_tunnel(admin: Client) -> None:
    open_agent_tunnel(admin.account, name=TEAM)
    edge = admin.create("/edges/tls", {"hostports": []})
    admin.patch(f"/edges/tls/{edge['id']}", {"hostports": [f"{TEAM}:443"]})
    assert online(admin.account) == []
    with pytest.raises(tunnels.EdgeHasName):
        open_agent_tunnel(admin.account, name=TEAM)
    admin.delete(f"/edges/tls/{edge['id']}")
    open_agent_tunnel(admin.account, name=TEAM)
    admin.create("/edges/https", {"hostports": [f"{TEAM}:443"]})
    assert online(admin.account) == []


def test_a_tunnel_whose_lease_has_ended_leaves_its_name_to_an_edge(admin: Client, stranger: Client) -> None:
    open_agent_tunnel(admin.account, name=TEAM, lease=0)
    edge = stranger.create("/edges/https", {"hostports": []})
    stranger.patch(f"/edges/https/{edge['id']}", {"hostports": [f"{TEAM}:443"]})
    with pytest.raises(Taken):
        open_agent_tunnel(admin.account, name=TEAM)
    open_agent_tunnel(admin.account, name=f"b.{D}", lease=0)
    stranger.create("/edges/https", {"hostports": [f"b.{D}:443"]})


def test_an_account_has_so_many_names_and_no_more(admin: Client) -> None:
    count_more(admin, names=name_counts.MAX_NAMES - 2)
    edge = admin.create("/edges/https", {"hostports": [f"a.{D}:443", f"b.{D}:443", f"x.a.{D}:443"]})
    full = admin.post("/edges/https", {"hostports": [f"c.{D}:443"]})
    assert_refused(full, 409, "conflict", "The account has 1000 names, the maximum: delete some first.", {})
    admin.create("/edges/tls", {"hostports": [f"y.a.{D}:443"]})  # the name counts already
    admin.patch(f"/edges/https/{edge['id']}", {"hostports": [f"a.{D}:443"]})
    admin.create("/edges/https", {"hostports": [f"c.{D}:443"]})


def test_the_calls_of_an_edge_with_a_name_are_few(admin: Client) -> None:
    with calls() as first:
        admin.create("/edges/https", {"hostports": [f"{TEAM}:443"]})
    for number in range(20):
        admin.create("/edges/https", {"hostports": [f"n{number}.{D}:443"]})
    with calls() as last:
        admin.create("/edges/https", {"hostports": [f"last.{D}:443"]})
    assert len(first) - len(last) == 2  # the settings, read and written down once
    assert last.count("TransactWriteItems") == 1
