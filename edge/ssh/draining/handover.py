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
from chalicelib.storage.records.change_log import ItemKey
from edge.link import client
from edge.link.authority import Authority
from edge.link.held_connections import HeldConnection
from edge.link.proxy_protocol import Header
from edge.ssh.online_tunnel import OnlineTunnel
from edge.store import threads
from edge.store.changes import Follower
from edge.store.records import Successor, Unavailable
from edge.store.table import Store

_POLL = 0.2  # seconds between two reads of the change log
_PAUSE = 0.5  # seconds until a connection to a successor is tried again
_CLOCKS_DIFFER = 5.0  # seconds by which the clocks of two hosts may differ


class HeldTunnel:
    """A tunnel of a gateway that drains, and the new connections that wait for its successor.

    At most `limit` connections wait at the same time. Further connections are closed.
    """

    def __init__(self, tunnel: OnlineTunnel, handover: "Handover", limit: int) -> None:
        self.tunnel, self._handover, self._limit = tunnel, handover, limit
        self.successor: Successor | None = None
        self.held: set[HeldConnection] = set()

    def connected(self, transport: asyncio.Transport, visitor: Header | None) -> asyncio.Protocol:
        held = HeldConnection(visitor, self.held.discard)
        if len(self.held) >= self._limit:
            transport.close()
            return held
        self.held.add(held)
        if self.successor:
            self._handover.start(self, held)
        return held

    def is_succeeded_by(self, other: Successor, since: float) -> bool:
        """Return whether the tunnel `other` replaces this tunnel at another gateway.

        Both must belong to the same account. A tunnel with a name is replaced by a tunnel with the same name. A tunnel
        with labels is replaced by a tunnel with the same labels and credential that was opened after the Unix time
        `since`.
        """
        own, opening = self.tunnel.record, self.tunnel.opening
        if other.tunnel.id == own.id or other.tunnel.account != own.account or other.tunnel.gateway == own.gateway:
            return False
        if own.name:  # a stricter successor could refuse visitors whom this tunnel's IP policies have admitted
            is_alike = other.tunnel.ip_policies in ((), own.ip_policies)
            return other.tunnel.name == own.name and is_alike
        is_later = ids.created_at(other.tunnel.id).timestamp() >= since - _CLOCKS_DIFFER
        return is_later and other.credential == opening.grant.credential and other.tunnel.labels == own.labels


class Handover:
    """The tunnels of a gateway that drains, with their held connections and their successors.

    `passed` counts the held connections that successors received, `failed` the held connections that were closed.
    """

    def __init__(self, store: Store, authority: Authority, limit: int) -> None:
        self._store, self._limit = store, limit
        self._context = client.build_context(authority)
        self._since = time.time()
        self._follower = Follower(store.list_changes, self._since)
        self._tunnels: dict[str, HeldTunnel] = {}
        self._unread: set[ItemKey] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.passed = self.failed = 0

    @property
    def held(self) -> int:
        """Return how many connections all these tunnels hold now."""
        return sum(len(it.held) for it in self._tunnels.values())

    @property
    def has_all(self) -> bool:
        """Return whether every tunnel has a successor, and no connections are held."""
        return not self.held and all(it.successor for it in self._tunnels.values())

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
        return [it.tunnel for it in self._tunnels.values() if it.successor is None]

    async def follow(self) -> None:
        """Find successors in the change log, and pass held connections to them, until cancelled."""
        while True:
            with suppress(Unavailable):
                await self._read()
            await asyncio.sleep(_POLL)

    def start(self, tunnel: HeldTunnel, held: HeldConnection) -> None:
        """Begin to pass a held connection to the successor of its tunnel."""
        task = asyncio.create_task(self._pass(tunnel, held))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close_held(self) -> None:
        """Close the connections that are still held. Envoy answers their visitors with 502."""
        for task in self._tasks:
            task.cancel()
        for held in [held for it in self._tunnels.values() for held in it.held]:
            self.failed += 1
            held.close()

    async def _read(self) -> None:
        """Find successors among the accounts' changed tunnels. Raises Unavailable.

        Accounts are left out if all their tunnels have successors.
        """
        changes = await threads.call(self._follower.read, time.time())
        scopes = {tunnels.scope(it.record.account) for it in self.find_unsucceeded()}
        own = {it.tunnel.id for it in self._tunnels.values()}
        self._unread |= {it for change in changes for it in change.item_keys if it.scope in scopes and it.id not in own}
        for item_key in list(self._unread):
            found = await threads.call(self._store.find_successor, item_key.scope.partition("#")[0], item_key.id)
            self._unread.discard(item_key)
            if found:
                self._on_opened(found)

    def _on_opened(self, found: Successor) -> None:
        for tunnel in self._tunnels.values():
            if tunnel.successor is None and tunnel.is_succeeded_by(found, self._since):
                tunnel.successor = found
                for held in list(tunnel.held):
                    self.start(tunnel, held)
                if found.tunnel.name:
                    return

    async def _pass(self, tunnel: HeldTunnel, held: HeldConnection) -> None:
        """Connect to the successor's gateway, and join this connection and the held connection.

        Repeat failed attempts until cancelled.
        """
        while tunnel.successor and held in tunnel.held:
            gateway, id = tunnel.successor.gateway, tunnel.successor.tunnel.id
            try:
                address = gateway.host, gateway.port
                side = await client.connect(self._context, gateway.id, address, id, held.visitor)
            except OSError:
                await asyncio.sleep(_PAUSE)
                continue
            tunnel.held.discard(held)
            self.passed += 1
            held.join(side)
