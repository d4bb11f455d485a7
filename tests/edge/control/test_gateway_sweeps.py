"""The one event of each tunnel that a dead gateway leaves behind."""

import asyncio
import re
import threading
import time

import pytest

from chalicelib import clock, ids
from chalicelib.model.audit import trail
from chalicelib.model.changes import Change
from chalicelib.model.tunnels import ends, gateways, online_tunnels, tunnels
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from chalicelib.storage.records.items import Item
from edge.control import gateway_sweeps
from edge.control.control import POLL
from edge.control.gateway_sweeps import GatewaySweeps
from edge.store import gateway_records
from edge.store.records import Grant, Opening, Unavailable
from edge.store.table import Store
from tests.edge import served_records
from tests.edge.edge_table import EdgeTable, fail
from tests.gateway_leases import set_lease
from tests.queries import calls
from tests.transports import Client
from tests.tunnels import open_agent_tunnel

ALIVE, DEAD = Gateway("gw-1", "192.0.2.1", 7000), Gateway("gw-2", "192.0.2.2", 7000)
D = "tunnels.localhost"


@pytest.fixture
def records(admin: Client) -> Store:
    store = Store("local", D)
    for gateway in (ALIVE, DEAD):
        assert gateways.announce(gateway, lease=60)
    return store


def open_at(store: Store, account: str, gateway: Gateway, name: str) -> str:
    """Open a tunnel. Return its id."""
    opening = Opening(Grant(account, "sshcr_1", ()), gateway.id, "ts_1", "192.0.2.9", name, f"https://{name}")
    return store.open(opening, most=100).id


def sweep(store: Store, *, times: int = 2) -> int:
    """Read the gateways and sweep, as control does again after the fence. Return how many tunnels ended."""

    async def run() -> int:
        sweeps = GatewaySweeps()
        for _ in range(times):
            sweeps.apply(gateways.list_gateways())
            await sweeps.sweep()
        return sweeps.ended

    return asyncio.run(run())


def list_ended(admin: Client) -> list[str]:
    """Return the ids of tunnels with an event of their end."""
    events = admin.get("/audit_events?limit=100").json["audit_events"]
    return sorted(event["resource_id"] for event in events if event["action"] == "tunnel.delete")


def online(admin: Client) -> list[str]:
    return [tunnel["id"] for tunnel in admin.get("/tunnels").json["tunnels"]]


def test_the_tunnels_of_a_dead_gateway_end_with_one_event_each(records: Store, admin: Client) -> None:
    tunnel_ids = [open_at(records, admin.account, DEAD, f"{name}.{D}") for name in "ab"]
    alive = open_at(records, admin.account, ALIVE, f"c.{D}")
    set_lease(DEAD.id, -6)
    assert (online(admin), sweep(records), sweep(records)) == ([alive], 2, 0)
    assert list_ended(admin) == sorted(tunnel_ids)
    assert gateways.list_gateways() == [ALIVE]
    assert [tunnel.id for tunnel in online_tunnels.read_tunnels_of_gateway(ALIVE.id)] == [alive]


def test_a_gateway_is_not_ended_within_the_clock_skew(records: Store, admin: Client) -> None:
    open_at(records, admin.account, DEAD, f"a.{D}")
    set_lease(DEAD.id, -4)
    assert (sweep(records), online(admin), list_ended(admin)) == (0, [], [])
    assert {gateway.ended for gateway in gateways.list_gateways()} == {0}


def test_one_host_sweeps_a_gateway(records: Store, admin: Client) -> None:
    open_at(records, admin.account, DEAD, f"a.{D}")
    set_lease(DEAD.id, -6)
    assert gateways.fence(DEAD.id)
    assert gateways.claim_sweep(DEAD.id, seconds=60)
    assert (sweep(records), list_ended(admin)) == (0, [])


def test_a_tunnel_of_an_earlier_version_keeps_its_lease_and_its_gateway_s_record(records: Store, admin: Client) -> None:
    tunnel_id = open_agent_tunnel(admin.account, gateway=DEAD.id, lease=60)
    set_lease(DEAD.id, -6)
    assert (sweep(records), online(admin), list_ended(admin)) == (0, [tunnel_id], [])
    assert {gateway.id for gateway in gateways.list_gateways()} == {ALIVE.id, DEAD.id}


def test_a_leftover_entry_of_the_list_is_removed(records: Store, admin: Client) -> None:
    id = open_at(records, admin.account, DEAD, f"a.{D}")
    other_tunnel = ServedTunnel("acct_other", id, DEAD.id, "")
    set_lease(DEAD.id, -6)
    assert gateways.fence(DEAD.id)
    assert not online_tunnels.end_of_gateway(other_tunnel, DEAD)
    assert online_tunnels.read_tunnels_of_gateway(DEAD.id) == []


def test_the_lists_of_live_gateways_are_not_read(records: Store, admin: Client) -> None:
    for number in range(5):
        open_at(records, admin.account, ALIVE, f"n{number}.{D}")
    with calls() as operations:
        sweep(records, times=1)
    assert operations == ["Query"]


class Counts:
    """Counts the ends that run at the same time, and notes the ends of claims."""

    def __init__(self) -> None:
        self.running = self.peak = 0
        self.guard = threading.Lock()
        self.claims: list[int] = []

    def note(self, operation: str, body: str) -> None:
        if match := re.search(r'"body.swept_until|#swept_until', body):
            assert match
            self.claims += [max(map(int, re.findall(r'"N": ?"([0-9]{10})"', body))) - clock.seconds()]
        if operation != "TransactWriteItems":
            return
        with self.guard:
            self.running += 1
            self.peak = max(self.peak, self.running)
        time.sleep(0.15)
        with self.guard:
            self.running -= 1


def leave(store: EdgeTable, tunnels: int) -> None:
    """Leave the tunnels of a gateway that has ended."""
    gateways.announce(DEAD, lease=60)
    for number in range(tunnels):
        served_records.put_account(f"acct_{number}")
        open_at(store, f"acct_{number}", DEAD, f"n{number}.{D}")
    gateway_records.withdraw_gateway(DEAD.id)


def test_a_sweep_is_bounded_in_its_rate_and_in_what_it_does_at_once(edge_table: EdgeTable) -> None:
    leave(edge_table, 60)
    counts, start = Counts(), time.monotonic()
    edge_table.before = counts.note
    assert sweep(edge_table, times=1) == 60
    assert (counts.peak <= 8, time.monotonic() - start > 0.55, edge_table.up) == (True, True, {})
    assert counts.claims == [60]


def test_a_sweep_whose_store_is_away_fails_so_that_it_is_repeated(edge_table: EdgeTable) -> None:
    leave(edge_table, 1)

    def fail_at_end(operation: str, _: str) -> None:
        if operation == "TransactWriteItems":
            fail()

    edge_table.before = fail_at_end
    with pytest.raises(Unavailable):
        sweep(edge_table, times=1)
    assert list(edge_table.up) == [DEAD.id]


def test_a_thousand_tunnels_end_within_a_minute_of_the_end_of_the_lease() -> None:
    noticed = clock.MAX_SKEW + 1 + 2 * POLL  # the fence, which the log then reports
    assert noticed + 1000 / gateway_sweeps.MAX_RATE < 30  # the rest is for a busy store


def test_a_gateway_that_died_is_swept_at_once(edge_table: EdgeTable) -> None:
    store = edge_table
    leave(store, 3)

    async def run() -> None:
        sweeps = GatewaySweeps()
        task = asyncio.create_task(sweeps.task.run())
        await asyncio.sleep(0.05)
        sweeps.apply(gateways.list_gateways())
        async with asyncio.timeout(10):  # half of the time between two sweeps
            while store.up:
                await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(run())


def test_an_end_is_counted_to_the_end_of_the_lease(records: Store, admin: Client) -> None:
    now = clock.seconds()
    id = ids.first_at("tn", now - 100)
    body = {"tunnel_session": "", "region": "", "forwards_to": "", "labels": {"app": "web"}, "gateway": DEAD.id}
    entry = {"account": admin.account, "name": "", "labels": {"app": "web"}}
    change = Change(trail.EDGE).put(Item(tunnels.scope(admin.account), id, {**body, "started_at": ids.time_of(id)}))
    change.put(Item(ends.gateway_scope(DEAD.id), id, entry)).commit()
    set_lease(DEAD.id, -40)
    assert sweep(records) == 1
    (event,) = admin.get("/audit_events?action=tunnel.delete").json["audit_events"]
    assert 59 <= int(event["details"]["seconds"]) <= 60
    assert not {"bytes_in", "bytes_out", "requests"} & event["details"].keys()
