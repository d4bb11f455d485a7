"""The one event of each tunnel that a lost gateway leaves behind."""

import pytest

from chalicelib.model.tunnels.gateways import Gateway
from edge.control.lost_gateways import end_lost_gateways
from edge.store.records import Grant, Opening, Store
from edge.store.table import TableStore
from tests.gateway_leases import set_lease
from tests.queries import calls
from tests.transports import Client

ALIVE, LOST = Gateway("gw-1", "192.0.2.1", 7000), Gateway("gw-2", "192.0.2.2", 7000)


@pytest.fixture
def records() -> TableStore:
    found = TableStore("local", "tunnels.localhost")
    for gateway in (ALIVE, LOST):
        found.announce_gateway(gateway, lease=60)
    return found


def opened(store: Store, account: str, gateway: Gateway, name: str, *, lease: int) -> str:
    """Open a tunnel. Return its id."""
    opening = Opening(Grant(account, "sshcr_1", ()), gateway.id, "ts_1", "192.0.2.9", name, f"https://{name}")
    return store.open(opening, lease=lease, most=100).id


def ended(admin: Client) -> list[str]:
    """Return the ids of tunnels with an event of their end."""
    found = admin.get("/audit_events?limit=100").json["audit_events"]
    return sorted(it["resource_id"] for it in found if it["action"] == "tunnel.delete")


def test_the_tunnels_of_a_lost_gateway_end_with_one_event_each(records: TableStore, admin: Client) -> None:
    lapsed = [opened(records, admin.account, LOST, f"{name}.tunnels.localhost", lease=0) for name in "ab"]
    alive = opened(records, admin.account, ALIVE, "c.tunnels.localhost", lease=60)
    set_lease(LOST.id, -6)
    for _ in range(3):
        end_lost_gateways(records)
    assert ended(admin) == sorted(lapsed)
    assert records.list_gateways() == [ALIVE]
    assert [it.id for it in records.list_tunnels(ALIVE.id)] == [alive]


def test_a_lost_gateway_stays_until_its_last_tunnel_has_ended(records: TableStore, admin: Client) -> None:
    opened(records, admin.account, LOST, "a.tunnels.localhost", lease=60)
    set_lease(LOST.id, -6)
    end_lost_gateways(records)
    assert ({it.id for it in records.list_gateways()}, ended(admin)) == ({ALIVE.id, LOST.id}, [])


def test_the_tunnels_of_live_gateways_are_not_read(records: TableStore, admin: Client) -> None:
    for number in range(5):
        opened(records, admin.account, ALIVE, f"n{number}.tunnels.localhost", lease=60)
    with calls() as made:
        end_lost_gateways(records)
    assert made == ["Query"]
