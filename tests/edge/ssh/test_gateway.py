"""A whole gateway on the table, with a client and an edge host in the same process."""

import asyncio
import json
import re
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import asyncssh
import pytest

from chalicelib import ids
from chalicelib.model.tunnels.gateways import GATEWAYS
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Write
from edge.link import client as link
from edge.link.held_connections import Side
from edge.link.proxy_protocol import Header
from edge.process import metrics
from edge.process.settings import Limits, Settings
from edge.ssh import forwarding
from edge.ssh.gateway import SshGateway
from edge.ssh.loops import CheckingLoop
from edge.store.records import Grant
from tests.conftest import free_port
from tests.edge.edge_table import EdgeTable
from tests.edge.ssh.wires import Wire

VISITOR = Header(("192.0.2.9", 49153), ("127.0.0.1", 443))
HEADER = b"PROXY TCP4 192.0.2.9 127.0.0.1 49153 22\r\n"
KEY = asyncssh.generate_private_key("ssh-ed25519")


class Client(asyncssh.SSHClient):
    """A client that remembers why it was disconnected. For the reason 11, BY_APPLICATION, asyncssh has no error."""

    is_lost = False
    error: Exception | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost, self.error = True, exc


@dataclass
class World:
    """A gateway, and what a test needs of its client and of an edge host."""

    settings: Settings
    gateway: SshGateway
    store: EdgeTable
    draining: asyncio.Event
    serving: "asyncio.Task[None]"
    client: Client = field(default_factory=Client)
    events: list[dict[str, Any]] = field(default_factory=list)

    @asynccontextmanager
    async def connecting(self) -> AsyncIterator[asyncssh.SSHClientConnection]:
        """Connect a client that reads the events of its connection."""
        connection, _ = await asyncssh.create_connection(
            lambda: self.client,
            "127.0.0.1",
            self.settings.ssh_port,
            client_keys=[KEY],
            known_hosts=None,
            config=None,
            kex_algs=["curve25519-sha256"],
        )
        process = await connection.create_process(subsystem="events")
        reading = asyncio.create_task(self._read(process))
        yield connection
        connection.abort()
        reading.cancel()

    async def _read(self, process: "asyncssh.SSHClientProcess[str]") -> None:
        async for line in process.stdout:
            if line.startswith("{"):
                self.events.append(json.loads(line))

    async def visit(self, port: int, tunnel: str) -> Wire:
        """Connect to a port of the link as Envoy does, and send a byte. Return what it receives."""
        context = link.build_context(self.store.authority)
        connection = await link.connect(context, self.gateway.id, ("127.0.0.1", port), tunnel, VISITOR)
        envoy, wire = Side(), Wire()
        envoy.transport = cast(Any, wire)
        connection.join(envoy)
        return wire

    async def read_metric(self, name: str) -> float:
        text = (await metrics.read_instances(self.settings.gateway_sockets)()).decode()
        return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(f"{name} "))

    async def find_unready(self) -> str:
        return await metrics.find_unready("gateway", self.settings.gateway_sockets)

    def accepts_clients(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.settings.ssh_port)) == 0


def run(work: Callable[[World], Awaitable[None]], settings: Settings, store: EdgeTable) -> None:
    """Serve with a gateway, and run a test."""

    async def main() -> None:
        draining = asyncio.Event()
        store.permit(KEY.get_fingerprint(), Grant("acct_A", "sshcr_1", ()))
        gateway = SshGateway(settings, store, store.authority)
        world = World(settings, gateway, store, draining, asyncio.create_task(gateway.serve(draining)))
        async with asyncio.timeout(30):
            await until(lambda: world.accepts_clients() and settings.gateway_sockets[settings.instance].exists())
            await work(world)
        world.serving.cancel()
        with suppress(asyncio.CancelledError):
            await world.serving

    with asyncio.Runner(loop_factory=CheckingLoop) as runner:
        runner.run(main())


async def until(is_true: Callable[[], bool]) -> None:
    while not is_true():
        await asyncio.sleep(0.01)


async def stay_open(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Use the connection until its end: Python 3.13 closes one whose writer is garbage."""
    await writer.wait_closed()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    limits = Limits(drain_timeout=3, switch_timeout=1, handover_timeout=1)
    return Settings(directory=tmp_path, ssh_port=free_port(), region="west", limits=limits)


def test_a_drain_goes_through_its_steps(
    edge_table: EdgeTable, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    async def work(world: World) -> None:
        store, id = world.store, world.gateway.id

        def port() -> int:
            return store.up[id].port

        service = await asyncio.start_server(stay_open, "127.0.0.1", 0)
        async with world.connecting() as client:
            await client.forward_remote_port("demo", 80, *service.sockets[0].getsockname())
            (tunnel,) = store.online
            first = port()
            assert (store.up[id].region, store.up[id].draining, await world.find_unready()) == ("west", False, "")
            assert await world.read_metric("edge_gateway_lease_seconds_left") > 50
            open_since_before = await world.visit(first, tunnel)
            await until(lambda: world.gateway.links.count(0) == 1)

            store.is_away = True  # the record is then written later
            world.draining.set()
            await until(lambda: not world.accepts_clients())
            store.is_away = False
            await until(lambda: store.up[id].draining)
            second = port()
            visitor = await world.visit(second, tunnel)
            assert (second != first, open_since_before.has_ended) == (True, False)
            assert await world.find_unready() == "no gateway is ready"
            assert await world.read_metric("edge_gateway_draining") == 1
            await until(lambda: forwarding.RESTART_SOON in [event.get("message") for event in world.events])
            with pytest.raises(asyncssh.ChannelListenError):
                await client.forward_remote_port("other", 80, "127.0.0.1", 1)
            assert world.events[-1]["message"] == "This gateway restarts: connect again."

            await until(lambda: port() != second)
            await until(lambda: open_since_before.has_ended)
            third = await world.visit(port(), tunnel)
            while await world.read_metric("edge_gateway_held") != 1:
                await asyncio.sleep(0.01)
            assert (world.client.is_lost, third.is_closed) == (False, False)

            await until(lambda: world.client.is_lost)
            assert (world.client.error, visitor.has_ended) == (None, True)
            assert tunnel in store.online  # until another gateway has its name, or the drain ends
            await world.serving
            assert (third.is_closed, store.online, store.up) == (True, {}, {})

    limits = replace(settings.limits, drain_timeout=8, switch_timeout=3, handover_timeout=3)  # for a busy machine
    run(work, replace(settings, limits=limits), edge_table)
    lines = map(json.loads, capsys.readouterr().err.splitlines())
    end_lines = [line for line in lines if line["event"] == "drain_ended"]
    assert [(line["handed_over"], line["handover_failed"]) for line in end_lines] == [(0, 1)]


@pytest.mark.parametrize("is_over", [False, True])
def test_a_gateway_without_its_lease_closes_everything_and_begins_with_a_new_id(
    edge_table: EdgeTable, settings: Settings, is_over: bool
) -> None:
    async def work(world: World) -> None:
        store, former = world.store, world.gateway.id
        async with world.connecting() as client:
            await client.forward_remote_port("demo", 80, "127.0.0.1", 1)
            if is_over:  # as after a stop of the process, whose first event comes with the check
                assert await is_shut_before_events(world)
            else:
                dynamodb.do(Write.delete(GATEWAYS, former))
            await until(lambda: world.client.is_lost)
        assert isinstance(world.client.error, asyncssh.DisconnectError)
        (notice,) = [event for event in world.events if "retry_after" in event]
        assert 0 <= notice["retry_after"] <= 10  # random, to one decimal place
        assert world.client.error.reason == notice["message"]
        assert "lost its lease: connect again in " in notice["message"]
        await until(lambda: world.accepts_clients() and world.gateway.id in store.up)
        assert world.gateway.id != former
        while await world.find_unready():
            await asyncio.sleep(0.01)
        world.gateway.lease._ends_at = time.monotonic() + world.settings.limits.lease / 3 - 0.5
        assert await world.find_unready() == "no gateway is ready"

    run(work, replace(settings, limits=replace(settings.limits, lease=60 if is_over else 6)), edge_table)


def test_policies_that_come_after_a_tunnel_end_it(edge_table: EdgeTable, settings: Settings) -> None:
    async def work(world: World) -> None:
        async with world.connecting() as client:
            await client.forward_remote_port("demo", 80, "127.0.0.1", 1)
            assert [tunnel.ip_policies for tunnel in world.store.online.values()] == [()]
            await client.create_process(env={"OTHER": "x"})
            assert len(world.store.online) == 1
            await client.create_process(env={"TUNNEL_IP_POLICIES": ids.new("ipp")})
            await until(lambda: not world.store.online)
            with pytest.raises(asyncssh.ChannelListenError):
                await client.forward_remote_port("other", 80, "127.0.0.1", 1)
            await until(lambda: world.events[-1]["event"] == "refused")
            assert world.events[-1]["message"].startswith("TUNNEL_IP_POLICIES came after the request for the tunnel")
            assert [event["message"] for event in world.events if event["event"] == "ended"] == [
                "https://demo.tunnels.localhost:8443 has ended: its client sent TUNNEL_IP_POLICIES after the tunnel "
                "was opened."
            ]

    run(work, settings, edge_table)


async def is_shut_before_events(world: World) -> bool:
    """End the lease while an event waits. Return whether all tunnels were closed before the event was handled."""
    loop, online, is_handled = asyncio.get_running_loop(), list[int](), asyncio.Event()

    def handle() -> None:
        online.append(len(world.gateway.tunnels))
        is_handled.set()

    first, other = socket.socketpair()
    with first, other:
        loop.add_reader(first, handle)
        world.gateway.lease._ends_at = 0.0
        other.send(b"x")
        await is_handled.wait()
        loop.remove_reader(first)
    return online[0] == 0


async def greet(settings: Settings, content: bytes) -> bytes:
    """Return what the SSH port sends to a client that sends some bytes first."""
    reader, writer = await asyncio.open_connection("127.0.0.1", settings.ssh_port)
    writer.write(content)
    try:
        return await reader.readline()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(("proxies", "greets"), [(("127.0.0.0/8",), True), (("192.0.2.0/24",), False)])
def test_behind_a_proxy_only_connections_with_a_header_are_greeted(
    edge_table: EdgeTable, settings: Settings, proxies: tuple[str, ...], greets: bool
) -> None:
    async def work(world: World) -> None:
        assert bool(await greet(settings, HEADER)) is greets
        assert await greet(settings, b"SSH-2.0-OpenSSH_9.9\r\n") == b""

    run(work, replace(settings, ssh_proxy_protocol_from=proxies), edge_table)


def test_without_proxies_a_header_is_not_accepted(edge_table: EdgeTable, settings: Settings) -> None:
    async def work(world: World) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", settings.ssh_port)
        writer.write(HEADER + b"SSH-2.0-OpenSSH_9.9\r\n")
        greeting = await reader.read()
        writer.close()
        assert greeting.startswith(b"SSH-2.0-edge\r\n")

    run(work, settings, edge_table)


def test_two_instances_share_a_host(edge_table: EdgeTable, settings: Settings) -> None:
    settings = replace(settings, metrics_port=free_port(), metrics_by="gateway", instance="a")

    async def work(world: World) -> None:
        other = SshGateway(replace(settings, instance="b"), world.store, world.store.authority)
        serving = asyncio.create_task(other.serve())
        await until(lambda: settings.gateway_sockets["b"].exists())
        await until(lambda: {*world.store.up} == {world.gateway.id, other.id})
        assert settings.gateway_sockets["a"] != settings.gateway_sockets["b"]
        assert not serving.done()
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving

    run(work, settings, edge_table)


def test_an_idle_gateway_only_renews_its_lease_and_reads_lists(edge_table: EdgeTable, settings: Settings) -> None:
    async def work(world: World) -> None:
        calls = Counter[str]()
        world.store.before = lambda operation, body: calls.update([name_call(operation, body)])
        async with world.connecting() as client:
            for number in range(10):
                await client.forward_remote_port(f"demo{number}", 80, "127.0.0.1", 1)
            await asyncio.sleep(0.7)  # the openings themselves are in the log
            calls.clear()
            start = time.monotonic()
            await asyncio.sleep(3)
            counts, elapsed = dict(calls), time.monotonic() - start
            assert await world.read_metric("edge_gateway_renewal_seconds") > 0
            assert len(world.store.online) == 10
        assert counts.pop("UpdateItem edge#/gateways", 0) <= elapsed / 2 + 2
        lists = {"/banned_patterns", "/blocked_networks", f"/gateways/{world.gateway.id}/tunnels"}
        assert counts.keys() <= {
            *(f"Query edge#{list_name}" for list_name in lists),
            *(f"Query changes#{list_name}" for list_name in range(4)),
        }

    run(work, replace(settings, limits=replace(settings.limits, lease=6)), edge_table)


def name_call(operation: str, body: str) -> str:
    """Return the operation of a call, with the first scope that it names."""
    match = re.search(r'"((?:edge|changes|acct_)[^"]*#[^"]*)"', body)
    return f"{operation} {match[1] if match else body}"
