"""When a gateway checks rights and its own list, and which tunnels it then closes."""

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import pytest

from chalicelib import ids
from chalicelib.model.tunnels import gateways, tunnels
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.storage.records import change_log
from edge.process.settings import Limits
from edge.ssh.lease import GatewayLease
from edge.ssh.online_tunnel import OnlineTunnel
from edge.ssh.rights_checks import RightsChecks
from edge.ssh.tunnels import Tunnels
from edge.store.changes import Follower
from edge.store.records import Grant, Opening, Unavailable
from tests.edge import served_records
from tests.edge.edge_table import EdgeTable, fail
from tests.edge.ssh.sessions import Client

GATEWAY_ID = "gw-1"


@dataclass
class World:
    """A gateway's checks. `read_at` is the time of the last read of the log, `checked` has the accounts of grants."""

    limits: Limits
    store: EdgeTable
    log_read_at: float = 0.0
    read_at: float = 0.0
    checked: list[str] = field(default_factory=list)
    ends: dict[str, Client] = field(default_factory=dict)  # by account

    def __post_init__(self) -> None:
        self.store.before = self.note
        gateways.announce(Gateway(GATEWAY_ID, "192.0.2.1", 1), lease=60)
        self.tunnels = Tunnels(self.store, self.limits)
        lease = GatewayLease(self.limits.lease, lambda: None)
        lease.on_log_read = self._on_log_read  # type: ignore[method-assign]
        self.checks = RightsChecks(self.tunnels, self.store, self.limits, lease)
        self.follower = Follower(change_log.read_since, time.time())

    def note(self, operation: str, body: str) -> None:
        if operation == "Query" and "changes#" in body:
            self.read_at = time.monotonic()
            time.sleep(0.01)
        match = re.search(r"(acct_[a-z0-9]+)#/ssh_credentials", body)
        if operation == "GetItem" and match:
            self.checked.append(match[1])

    def _on_log_read(self, started: float) -> None:
        self.log_read_at = started

    async def open(self, account: str) -> OnlineTunnel:
        grant = Grant(account, f"sshcr_{account}", ("bind:*.tunnels.localhost",))
        self.store.permit(account, grant)
        name = f"{account.removeprefix('acct_')}.tunnels.localhost"
        opening = Opening(grant, GATEWAY_ID, "ts_1", "192.0.2.9").with_name(name, f"https://{name}")
        self.ends[account] = Client()
        return await self.tunnels.open(opening, (name, 80), self.ends[account])

    def reasons(self) -> dict[str, list[str]]:
        """Return why tunnels have ended, by account."""
        return {account: client.ended_for for account, client in self.ends.items() if client.ended_for}


def run(work: Callable[[World], Awaitable[None]], store: EdgeTable, limits: Limits | None = None) -> None:
    async def main() -> None:
        await work(World(limits or Limits(), store))

    asyncio.run(main())


def test_the_own_list_is_read_with_every_third_renewal(edge_table: EdgeTable) -> None:
    limits = Limits(lease=60)
    world = World(limits, edge_table)
    intervals = {task.name: task.interval for task in world.checks.tasks(GATEWAY_ID, world.follower)}
    assert intervals["own_list"] == 3 * GatewayLease(limits.lease, lambda: None).task().interval == 60
    assert intervals["changes"] < 1


def test_the_lease_is_told_when_a_read_of_the_log_began_and_only_if_it_succeeded(edge_table: EdgeTable) -> None:
    async def work(world: World) -> None:
        world.store.is_away = True
        with pytest.raises(Unavailable):
            await world.checks.follow(world.follower)
        assert world.log_read_at == 0
        world.store.is_away = False
        await world.checks.follow(world.follower)
        assert 0 < world.log_read_at <= world.read_at

    run(work, edge_table)


def test_a_tunnel_that_is_missing_in_the_own_list_is_closed(edge_table: EdgeTable) -> None:
    async def work(world: World) -> None:
        closed_tunnel = await world.open("acct_gone")
        await world.open("acct_there")
        tunnels.close_tunnel("acct_gone", closed_tunnel.id)
        await world.checks.check_list(GATEWAY_ID)
        assert world.reasons() == {"acct_gone": ["another connection has taken its name, or the operator has ended it"]}

    run(work, edge_table)


@pytest.mark.parametrize(("seconds", "is_left_over"), [(50, False), (70, True)])
def test_a_record_without_a_tunnel_is_ended_after_the_time_of_a_lease(
    edge_table: EdgeTable, seconds: int, is_left_over: bool
) -> None:
    async def work(world: World) -> None:
        online = await world.open("acct_a")
        id = ids.first_at("tn", int(time.time()) - seconds)
        record = world.store.online[online.id]
        served_records.put_tunnel(replace(record, id=id, name=""))
        await world.checks.check_list(GATEWAY_ID)
        assert {*world.store.online} == {online.id, *([] if is_left_over else [id])}

    run(work, edge_table)


def test_a_change_of_a_right_acts_at_once_and_only_on_its_account(edge_table: EdgeTable) -> None:
    async def work(world: World) -> None:
        for account in ("acct_a", "acct_b"):
            await world.open(account)
        await world.checks.follow(world.follower)
        world.checked.clear()
        world.store.revoke("acct_a")
        await world.checks.follow(world.follower)
        assert world.reasons() == {"acct_a": ["its credential or right to the name was revoked"]}
        assert world.checked == ["acct_a"]

    run(work, edge_table)


def test_the_sweep_checks_each_account_once_at_a_time_of_its_own(edge_table: EdgeTable) -> None:
    async def work(world: World) -> None:
        for number in range(20):
            await world.open(f"acct_{number}")
        random.seed(7)
        start = time.monotonic()
        await world.checks.sweep()
        due = world.checks._due_at
        assert len({*due.values()}) == 20
        assert start <= min(due.values()) < start + 90 < start + 810 < max(due.values()) <= time.monotonic() + 900
        world.checks._due_at = dict.fromkeys(due, start)
        await world.checks.sweep()
        assert sorted(world.checked) == sorted(due)
        assert min(world.checks._due_at.values()) >= start + 900

    run(work, edge_table, Limits(rights_sweep=900))


@pytest.mark.parametrize(("lease", "is_closed"), [(60, False), (0, True)])
def test_a_tunnel_that_cannot_be_checked_for_the_time_of_a_lease_is_closed(
    edge_table: EdgeTable, lease: int, is_closed: bool
) -> None:
    async def work(world: World) -> None:
        for account in ("acct_a", "acct_b"):
            await world.open(account)
        await world.checks.follow(world.follower)  # the openings themselves are in the log

        def fail_of_a(operation: str, body: str) -> None:
            if operation == "BatchGetItem" and "a.tunnels.localhost" in body:
                fail()

        world.store.before = fail_of_a
        world.checks._due_at = dict.fromkeys(["acct_a", "acct_b"], 0.0)
        await world.checks.sweep()
        with pytest.raises(Unavailable):
            await world.checks.follow(world.follower)
        assert world.reasons() == ({"acct_a": ["its rights could not be checked"]} if is_closed else {})

    run(work, edge_table, Limits(lease=lease))
