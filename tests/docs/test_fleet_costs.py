"""docs/leases.md says what is counted here: the writes of idle fleets, and of the end of a gateway."""

import pytest

from bench import calls
from bench.costs import counted
from chalicelib.model.tunnels import gateways, online_tunnels
from chalicelib.model.tunnels.gateways import Gateway
from edge.process.settings import Limits
from edge.store import gateway_records
from edge.store.records import Grant, Opening
from edge.store.table import Store
from infra import ROOT
from tests.transports import Client

PAGE = (ROOT / "docs" / "leases.md").read_text()
HERE = Gateway("gw-1", "192.0.2.1", 7000)
PER_MINUTE = 60 / (Limits().lease / 3)


def open_at(store: Store, account: str, name: str) -> None:
    opening = Opening(Grant(account, "sshcr_1", ()), HERE.id, "ts_1", "192.0.2.9", name, f"https://{name}")
    store.open(opening, most=100)


@pytest.mark.parametrize(("tunnels", "fleet", "limit"), [(10_000, 3, 12), (100_000, 100, 400)])
def test_an_idle_fleet_writes_by_its_gateways(admin: Client, tunnels: int, fleet: int, limit: int) -> None:
    store = Store("local", "tunnels.localhost")
    gateways.announce(HERE, lease=60)
    for number in range(3):  # a renewal does not know of tunnels
        open_at(store, admin.account, f"n{number}.tunnels.localhost")
    renewed = counted(lambda: gateways.renew(HERE.id, lease=60))
    units = renewed.writes * PER_MINUTE * fleet
    assert units <= limit
    assert f"{tunnels:,} tunnels on {fleet} gateways use {units:.0f} write units" in PAGE.replace("\n", " ")


def test_an_end_costs_at_most_fourteen_units_and_has_one_event(admin: Client) -> None:
    store = Store("local", "tunnels.localhost")
    gateways.announce(HERE, lease=60)
    open_at(store, admin.account, "a.tunnels.localhost")
    (tunnel,) = online_tunnels.read_tunnels_of_gateway(HERE.id)
    gateway_records.withdraw_gateway(HERE.id)
    (gateway,) = gateways.list_gateways()
    assert counted(lambda: online_tunnels.end_of_gateway(tunnel, gateway)).writes <= 14
    assert len(admin.get("/audit_events?action=tunnel.delete").json["audit_events"]) == 1


def test_an_opening_is_two_queries_and_one_transaction(admin: Client) -> None:
    store = Store("local", "tunnels.localhost")
    gateways.announce(HERE, lease=60)
    open_at(store, admin.account, "a.tunnels.localhost")
    with calls.recording("dynamodb") as recording:
        open_at(store, admin.account, "b.tunnels.localhost")
    assert [call.operation for call in recording].count("TransactWriteItems") == 1
    # Gateways are read only at the limit of tunnels.
    assert "BatchGetItem" not in [call.operation for call in recording]
