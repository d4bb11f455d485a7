"""The steps of a drain, with real links, and how fast clients are disconnected."""

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from chalicelib.model.tunnels import gateways
from chalicelib.model.tunnels.gateways import Gateway
from edge.link import client
from edge.link.held_connections import Side
from edge.process.settings import Settings
from edge.ssh.draining.drain import Drain, choose_rate
from edge.ssh.draining.link_stages import LinkStages
from edge.ssh.online_tunnel import OnlineTunnel
from edge.ssh.session import Session
from edge.ssh.tunnels import Tunnels
from edge.store.records import Grant, Opening
from edge.store.table import Store
from tests.edge import served_records
from tests.edge.edge_table import EdgeTable
from tests.edge.ssh import sessions
from tests.edge.ssh.wires import Wire

NAME = "demo.tunnels.localhost"
OPENING = Opening(Grant("acct_A", "sshcr_1", ()), "gw-1", "ts_1", "192.0.2.9").with_name(NAME, f"https://{NAME}")


@pytest.mark.parametrize(("clients", "rate"), [(1, 100), (500, 100), (1000, 200), (10_000, 2000)])
def test_clients_are_disconnected_within_half_of_the_handover_but_not_slowly(clients: int, rate: float) -> None:
    assert choose_rate(clients, 10) == rate


class Client(sessions.Client):
    """A client that notes what a drain does with it."""

    def __init__(self) -> None:
        super().__init__()
        self.online: list[OnlineTunnel] = []
        self.was_notified, self.was_sent_away = False, asyncio.Event()

    def announce_drain(self) -> None:
        self.was_notified = True

    def send_away(self) -> None:
        self.was_sent_away.set()


@dataclass
class Drained:
    """A gateway of one client, with the ports that it announces."""

    settings: Settings
    store: Store
    tunnels: Tunnels
    links: LinkStages
    client: Client
    ports: list[int] = field(default_factory=list)

    @property
    def sessions(self) -> Sequence[Session]:
        return [cast(Session, self.client)]

    async def announce_drain(self, port: int) -> None:
        self.ports.append(port)


def test_a_drain_without_a_successor_ends_what_it_has_served_and_held(
    edge_table: EdgeTable, settings: Settings
) -> None:
    limits = replace(settings.limits, drain_timeout=1, switch_timeout=1, handover_timeout=3)

    async def run() -> None:
        store = edge_table
        served_records.put_account("acct_A")
        gateways.announce(Gateway("gw-1", "127.0.0.1", 1), lease=60)
        links, context = LinkStages(settings, store.authority, "gw-1"), client.build_context(store.authority)
        gateway = Drained(replace(settings, limits=limits), store, Tunnels(store, limits), links, Client())
        tunnel = await gateway.tunnels.open(OPENING, ("demo", 80), gateway.client)
        gateway.client.online.append(tunnel)
        async with links.serve(), asyncio.timeout(20):
            first = await links.open(gateway.tunnels.find_online)
            reader, _ = await asyncio.open_connection("127.0.0.1", first)
            drain = Drain(gateway, store.authority)
            draining = asyncio.create_task(drain.run())
            async with asyncio.timeout(4):  # the time of a drain, but not that of a handshake
                assert await reader.read() == b""
            await gateway.client.was_sent_away.wait()
            assert (gateway.tunnels.find_online(tunnel.id), tunnel.id in store.online) == (None, True)
            visitors = [await visit(context, port, tunnel) for port in gateway.ports]
            await draining
            assert [visitor.is_closed for visitor in visitors] == [True, True]
        assert drain.counts() == {"handed_over": 0, "handover_failed": 2}
        assert (gateway.client.was_notified, gateway.client.ended_for, tunnel.id in store.online) == (True, [], False)

    asyncio.run(run())


async def visit(context: ssl.SSLContext, port: int, tunnel: OnlineTunnel) -> Wire:
    """Connect as an edge host does, and return what it receives."""
    connection = await client.connect(context, "gw-1", ("127.0.0.1", port), tunnel.id, None)
    envoy, wire = Side(), Wire()
    envoy.transport = cast(Any, wire)
    connection.join(envoy)
    return wire
