"""Control as a whole on the table, without Envoy: when it reads gateways, and when it is ready."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

import grpc
import pytest
from envoy.service.discovery.v3 import ads_pb2_grpc
from envoy.service.discovery.v3.discovery_pb2 import DeltaDiscoveryRequest

from chalicelib.model.tunnels import gateways
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.storage.records.change_log import ItemKey
from edge.control.control import Control
from edge.control.names.name_resolver import NameResolver
from edge.envoy.ads.catalog import TYPES
from edge.process.progress import ENVOY, Progress
from edge.process.settings import Settings
from edge.ssh import loops
from edge.ssh.loops import CheckingLoop
from edge.store import gateway_records
from edge.store.records import Grant, Opening
from tests.conftest import free_port
from tests.edge import served_records
from tests.edge.edge_table import EdgeTable

NAME = "demo.tunnels.localhost"


class CountingResolver(NameResolver):
    """A resolver that counts the reads of gateways."""

    reads = 0

    def refresh_gateways(self) -> frozenset[ItemKey]:
        self.reads += 1
        return super().refresh_gateways()


@dataclass
class World:
    store: EdgeTable
    resolver: CountingResolver
    control: Control
    port: int

    async def get(self, path: str) -> str:
        """Return the response of the port for metrics."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(f"GET {path} HTTP/1.1\r\nhost: edge\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        return answer.decode()

    def announce(self, id: str, *, lease: int) -> None:
        assert gateways.announce(Gateway(id, "192.0.2.1", 1), lease=lease)

    def ports(self) -> dict[str, int]:
        return {gateway.id: gateway.port for gateway in self.resolver.gateways}


def run(work: Callable[[World], Awaitable[None]], store: EdgeTable, folder: Path) -> None:
    """Serve with control, and run a test."""

    async def main() -> None:
        settings = Settings(directory=folder, metrics_port=free_port())
        resolver = CountingResolver(settings.tunnel_domain)
        control = Control(settings, store.authority, resolver)
        serving = asyncio.create_task(control.serve())
        async with asyncio.timeout(30):
            await until(lambda: resolver.reads > 0 and settings.discovery_socket.exists())
            await work(World(store, resolver, control, settings.metrics_port))
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving

    with asyncio.Runner(loop_factory=CheckingLoop) as runner:
        runner.run(main())


async def until(is_true: Callable[[], bool], *, within: float = 10) -> None:
    """Wait until something is true, for less than half of the time between two reads of gateways."""
    async with asyncio.timeout(within):
        while not is_true():
            await asyncio.sleep(0.01)


def test_gateways_are_read_when_a_record_changes_or_a_lease_ends_and_every_twenty_seconds(
    edge_table: EdgeTable, tmp_path: Path
) -> None:
    async def work(world: World) -> None:
        world.announce("gw-1", lease=600)
        await until(lambda: world.ports() == {"gw-1": 1})
        gateways.change(Gateway("gw-1", "192.0.2.1", 2, draining=True))
        await until(lambda: world.ports() == {"gw-1": 2})
        reads = world.resolver.reads
        assert world.control._gateways_at <= time.monotonic() + 20
        world.announce("gw-2", lease=1)
        await until(lambda: world.resolver.reads == reads + 1)
        await until(lambda: world.resolver.reads > reads + 1)
        assert {gateway.id: gateway.is_live for gateway in world.resolver.gateways} == {"gw-1": True, "gw-2": False}

    run(work, edge_table, tmp_path)


def test_an_idle_control_seldom_calls_the_store_and_seldom_wakes(edge_table: EdgeTable, tmp_path: Path) -> None:
    async def work(world: World) -> None:
        calls, wakes, socket = list[str](), count(), tmp_path / "discovery.sock"
        async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
            envoy = ads_pb2_grpc.AggregatedDiscoveryServiceStub(channel).DeltaAggregatedResources()
            await envoy.write(DeltaDiscoveryRequest(type_url=TYPES["cluster"]))
            await until(lambda: world.control.discovery.catalog.is_complete)
            edge_table.before = lambda operation, _: calls.append(operation)
            loops.check_before_events(partial(next, wakes))
            await asyncio.sleep(4)
            loops.check_before_events(None)
            edge_table.before = lambda *_: None
        assert {*calls} == {"Query"}
        assert len(calls) / 4 <= 13.5  # four shards of the log 2.5 times a second, and blocks, bans and keys
        assert next(wakes) / 4 <= 38

    run(work, edge_table, tmp_path)


def test_the_tunnels_of_a_gateway_that_ended_are_swept_and_counted(edge_table: EdgeTable, tmp_path: Path) -> None:
    async def work(world: World) -> None:
        served_records.put_account("acct_A")
        world.announce("gw-1", lease=60)
        opening = Opening(Grant("acct_A", "sshcr_1", ()), "gw-1", "ts_1", "", NAME, f"https://{NAME}")
        world.store.open(opening, most=10)
        gateway_records.withdraw_gateway("gw-1")
        await until(lambda: not world.store.up and not world.store.online)
        assert "\nedge_control_ends_swept_total 1.0\n" in await world.get("/metrics")

    run(work, edge_table, tmp_path)


@pytest.mark.parametrize(("seconds", "is_old"), [(20, False), (31, True)])
def test_a_host_is_ready_if_the_log_was_read_lately_and_envoy_has_answered(
    edge_table: EdgeTable, tmp_path: Path, seconds: int, is_old: bool
) -> None:
    async def work(world: World) -> None:
        world.store.is_away = True
        await asyncio.sleep(0.5)  # until no read is under way
        world.control._read_at = time.monotonic() - seconds
        answer = await world.get("/readyz")
        assert answer.startswith("HTTP/1.1 503 ")
        assert ("the control process has not read the change log for " in answer) is is_old
        assert "Envoy has not answered control yet" in answer
        assert "no gateway is ready" in answer

    run(work, edge_table, tmp_path)


def test_a_start_without_the_store_reports_again_and_again_what_it_waits_for(
    edge_table: EdgeTable, tmp_path: Path
) -> None:
    async def main() -> None:
        settings, lines, authority = Settings(directory=tmp_path), list[str](), edge_table.authority
        edge_table.is_away = True
        resolver = NameResolver(settings.tunnel_domain)
        serving = asyncio.create_task(Control(settings, authority, resolver).serve())
        progress = Progress(tmp_path, ENVOY)
        async with asyncio.timeout(30):
            while len(lines) < 3:
                lines += filter(None, [progress.read_new()])
                await asyncio.sleep(0.01)
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
        assert {*lines} == {"the control process is waiting for the store: EndpointConnectionError"}

    asyncio.run(main())
