"""Passes connections from a gateway that drains to other gateways.

During a drain, new connections from Envoy to a tunnel are held: accepted, but not passed on. When the tunnel's client
has opened the same tunnel at another gateway (the successor), the held connections are passed to the successor.
"""

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress

from chalicelib import ids
from chalicelib.model.tunnels import tunnels
from chalicelib.storage.records import change_log
from chalicelib.storage.records.change_log import ItemKey
from edge.link import client
from edge.link.authority import Authority
from edge.link.held_connections import HeldConnection
from edge.link.proxy_protocol import Header
from edge.ssh.online_tunnel import OnlineTunnel
from edge.store import gateway_records, threads
from edge.store.changes import Follower
from edge.store.records import Successor, Unavailable

_POLL = 0.2  # seconds between two reads of the change log
_PAUSE = 0.5  # seconds until a failed connection to a successor is tried again
_CLOCKS_DIFFER = 5.0  # maximum difference between the clocks of two hosts, in seconds


class HeldTunnel:
    """A tunnel of a gateway that drains, and the new connections that wait for its successor.

    At most `limit` connections wait at the same time. Further connections are closed.
    """

    def __init__(self, tunnel: OnlineTunnel, handover: "Handover", limit: int) -> None:
        self.tunnel, self._handover, self._limit = tunnel, handover, limit
        self.successor: Successor | None = None
        self.connections: set[HeldConnection] = set()

    def on_connected(self, transport: asyncio.Transport, visitor: Header | None) -> asyncio.Protocol:
        connection = HeldConnection(visitor, self.connections.discard)
        if len(self.connections) >= self._limit:
            transport.close()
            return connection
        self.connections.add(connection)
        if self.successor:
            self._handover.start(self, connection)
        return connection

    def is_succeeded_by(self, candidate: Successor, since: float) -> bool:
        """Return whether `candidate` replaces this tunnel at another gateway.

        Both must belong to the same account. A tunnel with a name is replaced by a tunnel with the same name. A tunnel
        with labels is replaced by a tunnel with the same labels and credential that was opened after the Unix time
        `since`.
        """
        record, opening, tunnel = self.tunnel.record, self.tunnel.opening, candidate.tunnel
        if tunnel.id == record.id or tunnel.account != record.account or tunnel.gateway == record.gateway:
            return False
        # A successor with other IP policies could refuse visitors that this tunnel's policies have already admitted.
        if record.name:
            return tunnel.name == record.name and tunnel.ip_policies in ((), record.ip_policies)
        is_later = ids.created_at(tunnel.id).timestamp() >= since - _CLOCKS_DIFFER
        return is_later and candidate.credential == opening.grant.credential and tunnel.labels == record.labels


class Handover:
    """The tunnels of a gateway that drains, with their held connections and their successors.

    `passed` counts the held connections that successors received, `failed` the held connections that were closed.
    """

    def __init__(self, authority: Authority, limit: int) -> None:
        self._limit = limit
        self._context = client.build_context(authority)
        self._since = time.time()
        self._follower = Follower(change_log.read_since, self._since)
        self._tunnels: dict[str, HeldTunnel] = {}
        self._unread: set[ItemKey] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.passed = self.failed = 0

    @property
    def held_count(self) -> int:
        """Return how many connections all these tunnels hold now."""
        return sum(len(tunnel.connections) for tunnel in self._tunnels.values())

    @property
    def has_all(self) -> bool:
        """Return whether every tunnel has a successor, and no connections are held."""
        return not self.held_count and all(tunnel.successor for tunnel in self._tunnels.values())

    def add(self, online: Iterable[OnlineTunnel]) -> None:
        """Hold new connections to these online tunnels from now on."""
        for tunnel in online:
            self._tunnels.setdefault(tunnel.id.lower(), HeldTunnel(tunnel, self, self._limit))

    def find(self, id: str) -> HeldTunnel | None:
        """Return the HeldTunnel of the tunnel with an id, or None.

        The id is compared without case, because Envoys send it as a TLS server name.
        """
        return self._tunnels.get(id.lower())

    def find_unsucceeded(self) -> list[OnlineTunnel]:
        """Return the tunnels without a successor."""
        return [held_tunnel.tunnel for held_tunnel in self._tunnels.values() if held_tunnel.successor is None]

    async def follow(self) -> None:
        """Find successors in the change log, and pass held connections to them, until cancelled."""
        while True:
            with suppress(Unavailable):
                await self._read()
            await asyncio.sleep(_POLL)

    def start(self, tunnel: HeldTunnel, connection: HeldConnection) -> None:
        """Begin to pass a held connection to the successor of its tunnel."""
        task = asyncio.create_task(self._pass(tunnel, connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close_held(self) -> None:
        """Close the connections that are still held. Envoy answers their visitors with 502."""
        for task in self._tasks:
            task.cancel()
        for connection in [connection for tunnel in self._tunnels.values() for connection in tunnel.connections]:
            self.failed += 1
            connection.close()

    async def _read(self) -> None:
        """Find successors among the changed tunnels in the log. Raises Unavailable.

        An account is ignored if all its tunnels have successors.
        """
        changes = await threads.call(self._follower.read, time.time())
        scopes = {tunnels.scope(tunnel.record.account) for tunnel in self.find_unsucceeded()}
        held_ids = {held_tunnel.tunnel.id for held_tunnel in self._tunnels.values()}
        self._unread |= {
            item_key
            for change in changes
            for item_key in change.item_keys
            if item_key.scope in scopes and item_key.id not in held_ids
        }
        for item_key in list(self._unread):
            successor = await threads.call(
                gateway_records.find_successor, item_key.scope.partition("#")[0], item_key.id
            )
            self._unread.discard(item_key)
            if successor:
                self._on_opened(successor)

    def _on_opened(self, successor: Successor) -> None:
        for tunnel in self._tunnels.values():
            if tunnel.successor is None and tunnel.is_succeeded_by(successor, self._since):
                tunnel.successor = successor
                for connection in list(tunnel.connections):
                    self.start(tunnel, connection)
                if successor.tunnel.name:
                    return

    async def _pass(self, tunnel: HeldTunnel, connection: HeldConnection) -> None:
        """Connect to the successor's gateway, and join this connection and the held connection.

        Repeat failed attempts until cancelled.
        """
        while tunnel.successor and connection in tunnel.connections:
            gateway, id = tunnel.successor.gateway, tunnel.successor.tunnel.id
            try:
                address = gateway.host, gateway.port
                side = await client.connect(self._context, gateway.id, address, id, connection.visitor)
            except OSError:
                await asyncio.sleep(_PAUSE)
                continue
            tunnel.connections.discard(connection)
            self.passed += 1
            connection.join(side)
