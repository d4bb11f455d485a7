"""Held connections and the successors of their tunnels, over real links."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from chalicelib.model.tunnels import gateways
from chalicelib.model.tunnels.gateways import Gateway
from edge.link import client, server
from edge.link.held_connections import Side
from edge.link.proxy_protocol import Header
from edge.process.settings import Settings
from edge.ssh.draining.handover import Handover, HeldTunnel
from edge.ssh.draining.link_stages import LinkStages
from edge.ssh.online_tunnel import OnlineTunnel
from edge.store.records import Grant, Opening, Successor
from tests.edge import served_records
from tests.edge.edge_table import EdgeTable
from tests.edge.ssh.wires import Wire

GRANT = Grant("acct_A", "sshcr_1", ())
NAME = "demo.tunnels.localhost"
VISITOR = Header(("192.0.2.9", 49153), ("127.0.0.1", 443), is_private=True)


class Echo(asyncio.Protocol):
    """A tunnel that returns its visitor and what it received, when that has ended."""

    def on_connected(self, transport: asyncio.Transport, visitor: Header | None) -> asyncio.Protocol:
        self.transport, self.visitor, self.received = transport, visitor, b""
        return self

    def data_received(self, data: bytes) -> None:
        self.received += data

    def eof_received(self) -> bool:
        source = self.visitor.source if self.visitor else None
        is_private = bool(self.visitor and self.visitor.is_private)
        self.transport.write(f"{source} {is_private} {len(self.received)}".encode())
        self.transport.close()
        return True


@dataclass
class World:
    """A gateway `gw-1` that drains, and what a test needs of another one."""

    links: LinkStages
    handover: Handover
    settings: Settings
    store: EdgeTable

    async def visit(self, port: int, tunnel: str) -> tuple[Wire, Side]:
        """Connect as Envoy does. Return what it receives, and what sends its bytes."""
        context = client.build_context(self.store.authority)
        connection = await client.connect(context, "gw-1", ("127.0.0.1", port), tunnel, VISITOR)
        envoy, wire = Side(), Wire()
        envoy.transport = cast(Any, wire)
        connection.join(envoy)
        return wire, envoy


def online(store: EdgeTable, opening: Opening) -> OnlineTunnel:
    served_records.put_account(opening.grant.account)
    record = store.open(opening, most=10)
    return OnlineTunnel(record, opening, (opening.name, 80), cast(Any, None), is_reserved=False)


def opening(gateway: str = "gw-1", grant: Grant = GRANT) -> Opening:
    return Opening(grant, gateway, "ts_1", "192.0.2.9").with_name(NAME, f"https://{NAME}")


def run(
    work: "Callable[[World, OnlineTunnel, int], Any]", store: EdgeTable, settings: Settings, limit: int = 10
) -> None:
    """Hold the connections of a tunnel, and run a test."""

    async def serve() -> None:
        gateways.announce(Gateway("gw-1", "127.0.0.1", 1), lease=60)
        tunnel = online(store, opening())
        links, handover = LinkStages(settings, store.authority, "gw-1"), Handover(store.authority, limit)
        handover.add([tunnel])
        async with AsyncExitStack() as stack, asyncio.timeout(10):
            await stack.enter_async_context(links.serve())
            port = await links.open(handover.find)
            following = asyncio.create_task(handover.follow())
            await work(World(links, handover, settings, store), tunnel, port)
            following.cancel()

    asyncio.run(serve())


async def until(is_true: Callable[[], bool]) -> None:
    while not is_true():
        await asyncio.sleep(0.01)


def test_a_held_connection_reaches_the_successor_with_its_visitor_and_all_bytes(
    edge_table: EdgeTable, settings: Settings
) -> None:
    async def work(world: World, tunnel: OnlineTunnel, port: int) -> None:
        wire, envoy = await world.visit(port, tunnel.id)
        envoy.data_received(b"x" * 300_000)
        envoy.eof_received()
        await until(lambda: world.handover.held_count == 1)
        assert not world.handover.has_all
        await asyncio.sleep(0.1)
        assert wire.written == b""

        listening = await server.serve(world.store.authority, "gw-2", "127.0.0.1", 0, lambda _: Echo())
        async with listening:
            at = listening.sockets[0].getsockname()[1]
            gateways.announce(Gateway("gw-2", "127.0.0.1", at), lease=60)
            world.store.open(opening("gw-2"), most=10)
            await until(lambda: wire.is_closed)
            assert wire.written == f"{VISITOR.source} True 300000".encode()
            assert (world.handover.held_count, world.handover.passed, world.handover.has_all) == (0, 1, True)
            later, envoy = await world.visit(port, tunnel.id)  # of an edge host that still uses the gateway
            envoy.eof_received()
            await until(lambda: later.is_closed)
            assert later.written == f"{VISITOR.source} True 0".encode()
        await until(lambda: world.links.count(0) == 0)

    run(work, edge_table, settings)


def test_without_a_successor_a_held_connection_is_closed(edge_table: EdgeTable, settings: Settings) -> None:
    async def work(world: World, tunnel: OnlineTunnel, port: int) -> None:
        wire, _ = await world.visit(port, tunnel.id)
        await until(lambda: world.handover.held_count == 1)
        world.handover.close_held()
        await until(lambda: wire.is_closed)
        assert (wire.written, world.handover.failed, world.handover.passed) == (b"", 1, 0)
        assert world.handover.find_unsucceeded() == [tunnel]

    run(work, edge_table, settings)


def test_a_successor_that_cannot_be_reached_is_tried_until_the_time_is_over(
    edge_table: EdgeTable, settings: Settings
) -> None:
    async def work(world: World, tunnel: OnlineTunnel, port: int) -> None:
        wire, _ = await world.visit(port, tunnel.id)
        listening = await server.serve(world.store.authority, "gw-3", "127.0.0.1", 0, lambda _: Echo())
        async with listening:  # another gateway than the record says
            at = listening.sockets[0].getsockname()[1]
            gateways.announce(Gateway("gw-2", "127.0.0.1", at), lease=60)
            world.store.open(opening("gw-2"), most=10)
            await until(lambda: world.handover.find_unsucceeded() == [])
            await asyncio.sleep(0.2)
            assert (world.handover.held_count, world.handover.passed, wire.is_closed) == (1, 0, False)
            world.handover.close_held()
            await until(lambda: wire.is_closed)
        assert world.handover.failed == 1

    run(work, edge_table, settings)


def test_one_tunnel_has_at_most_as_many_held_connections_as_channels(edge_table: EdgeTable, settings: Settings) -> None:
    async def work(world: World, tunnel: OnlineTunnel, port: int) -> None:
        wires = [(await world.visit(port, tunnel.id))[0] for _ in range(3)]
        await until(lambda: [wire.is_closed for wire in wires] == [False, False, True])
        assert world.handover.held_count == 2
        world.handover.close_held()

    run(work, edge_table, settings, limit=2)


@pytest.mark.parametrize(
    ("changes", "credential", "is_successor"),
    [
        ({}, "sshcr_1", True),
        ({"labels": {"app": "web", "zone": "b"}}, "sshcr_1", False),
        ({}, "sshcr_2", False),
        ({"account": "acct_B"}, "sshcr_1", False),
        ({"gateway": "gw-1"}, "sshcr_1", False),
    ],
)
def test_the_successor_of_a_labelled_tunnel_has_its_credential_and_labels(
    edge_table: EdgeTable, changes: dict[str, Any], credential: str, is_successor: bool
) -> None:
    store = edge_table
    gateways.announce(Gateway("gw-1", "127.0.0.1", 1), lease=60)
    labelled = Opening(GRANT, "gw-1", "ts_1", "192.0.2.9").with_labels((("app", "web"),))
    held_tunnel = HeldTunnel(online(store, labelled), cast(Handover, None), 1)
    other = replace(store.open(replace(labelled, gateway="gw-2"), most=10), **changes)
    successor = Successor(other, credential, Gateway("gw-2", "127.0.0.1", 1))
    assert held_tunnel.is_succeeded_by(successor, since=0) is is_successor


@pytest.mark.parametrize(
    ("own_policies", "other_policies", "is_successor"),
    [((), (), True), (("ipp_1",), ("ipp_1",), True), (("ipp_1",), (), True), ((), ("ipp_1",), False)],
)
def test_a_successor_has_no_ip_policies_that_visitors_have_not_passed(
    edge_table: EdgeTable, own_policies: tuple[str, ...], other_policies: tuple[str, ...], is_successor: bool
) -> None:
    store = edge_table
    gateways.announce(Gateway("gw-1", "127.0.0.1", 1), lease=60)
    opening = Opening(GRANT, "gw-1", "ts_1", "192.0.2.9").with_name(NAME, f"https://{NAME}")
    held_tunnel = HeldTunnel(online(store, opening), cast(Handover, None), 1)
    held_tunnel.tunnel.record = replace(held_tunnel.tunnel.record, ip_policies=own_policies)
    other = replace(store.open(replace(opening, gateway="gw-2"), most=10), ip_policies=other_policies)
    assert (
        held_tunnel.is_succeeded_by(Successor(other, "sshcr_1", Gateway("gw-2", "127.0.0.1", 1)), since=0)
        is is_successor
    )


def test_a_tunnel_from_before_the_drain_is_no_successor_of_a_labelled_one(edge_table: EdgeTable) -> None:
    store = edge_table
    gateways.announce(Gateway("gw-1", "127.0.0.1", 1), lease=60)
    labelled = Opening(GRANT, "gw-1", "ts_1", "192.0.2.9").with_labels((("app", "web"),))
    held_tunnel = HeldTunnel(online(store, labelled), cast(Handover, None), 1)
    other = store.open(replace(labelled, gateway="gw-2"), most=10)
    assert not held_tunnel.is_succeeded_by(Successor(other, "sshcr_1", Gateway("gw-2", "127.0.0.1", 1)), since=1e11)
