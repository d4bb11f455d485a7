"""Which gateways are up, and the one event of each tunnel that a lost gateway leaves behind."""

import pytest

from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import GATEWAYS, ServedTunnel
from chalicelib.storage.records.change_log import Place
from edge.control.gateway_watch import GatewayWatch
from edge.store.records import Grant, Opening, Store, Unavailable
from edge.store.table import TableStore
from tests.edge.memory import Memory
from tests.queries import calls
from tests.transports import Client

ALIVE, LOST = Gateway("gw-1", "192.0.2.1", 7000), Gateway("gw-2", "192.0.2.2", 7000)


@pytest.fixture
def records() -> TableStore:
    return TableStore("local", "tunnels.localhost")


def opened(store: Store, account: str, gateway: Gateway, name: str, *, lease: int) -> ServedTunnel:
    opening = Opening(Grant(account, "sshcr_1", ()), gateway.id, "ts_1", "192.0.2.9", name, f"https://{name}")
    return store.open(opening, lease=lease, most=100)


def place(gateway: Gateway) -> Place:
    return Place(GATEWAYS, gateway.id)


def events(admin: Client) -> list[str]:
    """Return the ids of tunnels with an event of their end."""
    found = admin.get("/audit_events?limit=100").json["audit_events"]
    return sorted(it["resource_id"] for it in found if it["action"] == "tunnel.delete")


def test_each_change_of_a_gateway_is_returned_once(records: TableStore) -> None:
    watch = GatewayWatch(records)
    assert watch.check() == frozenset()
    records.announce_gateway(ALIVE, lease=60)
    records.announce_gateway(LOST, lease=60)
    assert [watch.check(), watch.check()] == [frozenset({place(ALIVE), place(LOST)}), frozenset()]
    records.announce_gateway(LOST, lease=0)
    assert [watch.check(), watch.check()] == [frozenset({place(LOST)}), frozenset()]
    records.withdraw_gateway(ALIVE.id)
    assert watch.check() == {place(ALIVE)}


def test_the_tunnels_of_a_lost_gateway_end_with_one_event_each(records: TableStore, admin: Client) -> None:
    for gateway in (ALIVE, LOST):
        records.announce_gateway(gateway, lease=60)
    lapsed = [opened(records, admin.account, LOST, f"{name}.tunnels.localhost", lease=0) for name in "ab"]
    alive = opened(records, admin.account, ALIVE, "c.tunnels.localhost", lease=60)
    records.announce_gateway(LOST, lease=0)
    watches = [GatewayWatch(records) for _ in range(3)]
    for watch in (*watches, *watches):
        watch.check()
    assert events(admin) == sorted(it.id for it in lapsed)
    assert [(it.id, is_up) for it, is_up in records.list_gateways()] == [(ALIVE.id, True)]
    assert [it.id for it in records.list_tunnels(ALIVE.id)] == [alive.id]


def test_a_lost_gateway_stays_until_its_last_tunnel_has_ended(records: TableStore, admin: Client) -> None:
    opened(records, admin.account, LOST, "a.tunnels.localhost", lease=60)
    records.announce_gateway(LOST, lease=0)
    GatewayWatch(records).check()
    assert ([it.id for it, _ in records.list_gateways()], events(admin)) == ([LOST.id], [])


def test_tunnels_of_live_gateways_are_not_read(records: TableStore, admin: Client) -> None:
    records.announce_gateway(ALIVE, lease=60)
    for number in range(5):
        opened(records, admin.account, ALIVE, f"n{number}.tunnels.localhost", lease=60)
    watch = GatewayWatch(records)
    with calls() as made:
        watch.check()
    assert made == ["Query"]


def test_a_check_without_the_store_changes_nothing() -> None:
    memory = Memory()
    watch = GatewayWatch(memory)
    memory.announce_gateway(ALIVE, lease=60)
    memory.is_away = True
    with pytest.raises(Unavailable):
        watch.check()
    memory.is_away = False
    assert watch.check() == {place(ALIVE)}
