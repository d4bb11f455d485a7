"""The lease of a gateway: renewed only by a gateway that reads the log, and lost for good."""

import asyncio
import time
from dataclasses import dataclass

import pytest

from chalicelib.model.tunnels.gateways import Gateway
from edge.ssh.lease import GatewayLease, LeaseLost
from edge.store import gateway_records
from edge.store.records import Unavailable
from tests.edge.edge_table import EdgeTable
from tests.gateway_leases import set_lease

OWN_GATEWAY = Gateway("gw-1", "192.0.2.1", 7000)


@dataclass
class World:
    store: EdgeTable
    lease: GatewayLease
    losses: list[str]


async def begin_world(store: EdgeTable, seconds: int = 60) -> World:
    losses = list[str]()
    lease = GatewayLease(seconds, lambda: losses.append("lost"))
    await lease.begin(OWN_GATEWAY)
    return World(store, lease, losses)


async def renew_now(world: World) -> float | None:
    """Renew, as if the last renewal was long ago."""
    world.lease._renewed_at -= 30
    return await world.lease.renew()


def end_of(world: World) -> int:
    return world.store.up[OWN_GATEWAY.id].lease


def test_a_renewal_requires_a_read_of_the_log_since_the_last_one(edge_table: EdgeTable) -> None:
    async def run() -> None:
        world = await begin_world(edge_table)
        world.lease.on_log_read(time.monotonic() - 100)  # before the lease began
        set_lease(OWN_GATEWAY.id, 30)
        before = end_of(world)
        world.lease._renewed_at -= 30
        assert await world.lease.renew() == 1.0  # skipped
        assert end_of(world) == before
        world.lease.on_log_read(time.monotonic())
        assert await world.lease.renew() is None
        assert (end_of(world) > before, world.losses) == (True, [])

    asyncio.run(run())


def test_a_lease_is_renewed_three_times_within_its_time(edge_table: EdgeTable) -> None:
    assert GatewayLease(60, lambda: None).task().interval == 20


def test_a_rejected_renewal_loses_the_lease_once(edge_table: EdgeTable) -> None:
    async def run() -> None:
        world = await begin_world(edge_table)
        gateway_records.withdraw_gateway(OWN_GATEWAY.id)
        world.lease.on_log_read(time.monotonic())
        await renew_now(world)
        world.lease.check()
        assert (world.losses, world.lease.seconds_left) == (["lost"], 0)
        with pytest.raises(LeaseLost):
            await world.lease.wait_for_loss()

    asyncio.run(run())


def test_a_lease_that_cannot_be_renewed_is_lost_at_its_end(edge_table: EdgeTable) -> None:
    async def run() -> None:
        world = await begin_world(edge_table, 1)
        world.store.is_away = True
        start = time.monotonic()
        world.lease.on_log_read(time.monotonic())
        with pytest.raises(Unavailable):
            await renew_now(world)
        assert world.losses == []
        with pytest.raises(LeaseLost):
            await world.lease.wait_for_loss()
        assert (world.losses, 0.8 < time.monotonic() - start < 2) == (["lost"], True)

    asyncio.run(run())


def test_a_renewal_that_returns_after_the_end_does_not_bring_the_lease_back(edge_table: EdgeTable) -> None:
    async def run() -> None:
        losses = list[str]()
        lease = GatewayLease(1, lambda: losses.append("lost"))
        await lease.begin(OWN_GATEWAY)
        set_lease(OWN_GATEWAY.id, 60)  # by the clock of the table it is not over
        edge_table.before = lambda *_: time.sleep(1.3)
        lease.on_log_read(time.monotonic())
        lease._renewed_at -= 1
        with pytest.raises(LeaseLost):
            await asyncio.gather(lease.renew(), lease.wait_for_loss())
        await asyncio.sleep(0.5)
        assert (losses, lease.seconds_left) == (["lost"], 0)

    asyncio.run(run())


def test_a_lease_is_counted_from_the_begin_of_its_renewal(edge_table: EdgeTable) -> None:
    async def run() -> None:
        lease = GatewayLease(60, lambda: None)
        await lease.begin(OWN_GATEWAY)
        edge_table.before = lambda *_: time.sleep(0.2)
        lease._renewed_at -= 30
        lease.on_log_read(time.monotonic())
        assert await lease.renew() is None
        assert lease.seconds_left <= 59.8
        assert lease.renewal_seconds >= 0.2

    asyncio.run(run())
