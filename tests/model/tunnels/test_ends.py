"""Every end of a tunnel has one event."""

import pytest

from chalicelib import __main__ as operator
from chalicelib import clock
from chalicelib.model.tunnels import online_tunnels, tunnels
from chalicelib.storage.records import table
from tests.transports import Client
from tests.tunnels import NAME, ended, opened

Output = pytest.CaptureFixture[str]


def carried(gateway: str = "gw-1") -> list[str]:
    return [
        tunnel.id for tunnel in online_tunnels.tunnels_of_gateway(gateway) if not tunnel.has_lapsed(clock.seconds())
    ]


def online(account: str) -> list[str]:
    return [item.id for item in online_tunnels.list_online(account)]


def test_a_tunnel_whose_name_is_taken_over_has_its_end_told_once(admin: Client) -> None:
    first = opened(admin.account)
    second = opened(admin.account, gateway="gw-2")
    assert ended(admin) == [(first, "edge")]
    (event,) = admin.get(f"/audit_events?resource_id={first}&action=tunnel.delete").json["audit_events"]
    seconds = event["details"]["seconds"]
    told = {"credential": "sshcr_1", "name": NAME, "public_url": f"https://{NAME}", "seconds": seconds}
    assert (event["details"], int(seconds) < 30) == (told, True)
    assert (event["revision"], carried()) == (2, [])
    assert not tunnels.close_tunnel(admin.account, first, usage=tunnels.Traffic(1, 2, 3))
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


def test_a_lapsed_lease_is_ended_with_one_event_by_whoever_notices_first(admin: Client, capsys: Output) -> None:
    lapsed, live = opened(admin.account, lease=0, name="a.tunnels.localhost"), opened(admin.account)
    assert online(admin.account) == [live]

    operator.main(["tunnels", "list"])
    assert [item.id for item in online_tunnels.end_all_offline(admin.account)] == [live]

    deleted = admin.get("/audit_events?action=tunnel.delete").json["audit_events"]
    assert [(event["resource_id"], event["actor"]["type"]) for event in deleted] == [(lapsed, "edge")]
    assert carried() == [live]
    assert lapsed not in capsys.readouterr().out
