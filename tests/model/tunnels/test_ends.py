"""Every end of a tunnel has one event."""

import pytest

from chalicelib import __main__ as operator
from chalicelib import clock
from chalicelib.model.tunnels import online_tunnels, tunnels
from chalicelib.storage.records import table
from tests.transports import Client
from tests.tunnels import NAME, list_ends, open_agent_tunnel

Output = pytest.CaptureFixture[str]


def list_tunnel_ids(gateway: str = "gw-1") -> list[str]:
    return [
        tunnel.id
        for tunnel in online_tunnels.read_tunnels_of_gateway(gateway)
        if not tunnel.has_lapsed(clock.seconds())
    ]


def online(account: str) -> list[str]:
    return [item.id for item in online_tunnels.list_online(account)]


def test_a_tunnel_whose_name_is_taken_over_has_its_end_told_once(admin: Client) -> None:
    first = open_agent_tunnel(admin.account)
    second = open_agent_tunnel(admin.account, gateway="gw-2")
    assert list_ends(admin) == [(first, "edge")]
    (event,) = admin.get(f"/audit_events?resource_id={first}&action=tunnel.delete").json["audit_events"]
    seconds = event["details"]["seconds"]
    details = {"credential": "sshcr_1", "name": NAME, "public_url": f"https://{NAME}", "seconds": seconds}
    assert (event["details"], int(seconds) < 30) == (details, True)
    assert (event["revision"], list_tunnel_ids()) == (2, [])
    assert not tunnels.close_tunnel(admin.account, first, usage=tunnels.Traffic(1, 2, 3))
    assert tunnels.close_tunnel(admin.account, second)
    assert [id for id, _ in list_ends(admin)] == [second, first]


@pytest.mark.parametrize("taking", ["a tunnel", "a reservation", "a ban"])
def test_a_lapsed_tunnel_whose_name_is_taken_has_its_end_told_where_it_was(
    admin: Client, stranger: Client, taking: str
) -> None:
    lapsed = open_agent_tunnel(admin.account, lease=0)
    if taking == "a tunnel":
        open_agent_tunnel(stranger.account, gateway="gw-2")
    elif taking == "a reservation":
        stranger.create("/reserved_domains", {"domain": NAME})
    else:
        operator.main(["names", "ban", NAME])
    assert list_ends(admin) == [(lapsed, "edge")]
    assert (list_ends(stranger), online_tunnels.read_tunnels_of_gateway("gw-1")) == ([], [])
    record = table.read(f"edge#/served_names/{NAME}", lapsed)
    assert record
    assert record.body["ended_at"] >= record.body["started_at"]


def test_a_lapsed_lease_is_ended_with_one_event_by_whoever_notices_first(admin: Client, capsys: Output) -> None:
    lapsed, live = (
        open_agent_tunnel(admin.account, lease=0, name="a.tunnels.localhost"),
        open_agent_tunnel(admin.account),
    )
    assert online(admin.account) == [live]

    operator.main(["tunnels", "list"])
    assert [item.id for item in online_tunnels.end_all_offline(admin.account)] == [live]

    deleted = admin.get("/audit_events?action=tunnel.delete").json["audit_events"]
    assert [(event["resource_id"], event["actor"]["type"]) for event in deleted] == [(lapsed, "edge")]
    assert list_tunnel_ids() == [live]
    assert lapsed not in capsys.readouterr().out
