"""The special names of one account: their records, plans, and Envoy's resources.

A special name is a host or port that Envoy must know before a visitor comes. The stored list has an entry for each edge
or tunnel with special names. A handshake requirement is an edge's TLS version, or a digest if the edge demands client
certificates or OAuth. A resync is a read of all records of the account, in case the change log lacks a change.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from chalicelib.domains import WILDCARD
from chalicelib.model.names.special_names import SpecialEntry
from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.serving.account_view import AccountView, Service
from chalicelib.storage.records.change_log import ItemKey
from edge.control.names import gateway_users
from edge.control.names.gateway_users import GatewayUsers
from edge.envoy.resources import Changes, Resource
from edge.process import log
from edge.serving import special_plans
from edge.serving.special_plans import SpecialPlans
from edge.serving.special_serving import SpecialServing
from edge.store.records import AccountHosts, Unavailable, Undecodable


class ItemReader(Protocol):
    """Reads the records of an account. The methods block, and raise Unavailable."""

    def read_items(self, account: str, ids: Iterable[str], records: AccountRecords | None) -> AccountRecords: ...

    def read_changed(self, records: AccountRecords, item_keys: Iterable[ItemKey]) -> AccountRecords: ...

    def resync(self, records: AccountRecords) -> AccountRecords: ...


class Publisher(Protocol):
    """Sends resources to Envoy, and waits for its answers."""

    async def hold(self, owner: str, clusters: Iterable[Resource]) -> None:
        """Send clusters that loaded names can share. Remove the earlier clusters of `owner` that no name uses."""

    async def wait_for_scopes(self, requirements: Mapping[str, str]) -> None:
        """Wait, at most a second, until Envoy's scopes of loaded names meet the requirements of their hosts."""

    async def publish(self, changes: Changes) -> None:
        """Send resources that only special names use: additions first, removals last."""


@dataclass(frozen=True)
class Shared:
    """The objects that all accounts share.

    `list_hosts` returns all hosts of an account; it blocks, and raises Unavailable. `run` calls a blocking read in a
    thread. `service` returns the current settings that decide which names are served.
    """

    reader: ItemReader
    serving: SpecialServing
    publisher: Publisher
    list_hosts: Callable[[str], AccountHosts]
    run: Callable[..., Awaitable[Any]]
    service: Callable[[], Service]
    gateway_users: GatewayUsers = field(default_factory=GatewayUsers)


@dataclass
class _Work:
    """The pending reads of an account: the changed records to read, and whether a resync is due."""

    changed: set[ItemKey] = field(default_factory=set)
    is_resync: bool = False

    def merge(self, other: "_Work") -> None:
        self.changed |= other.changed
        self.is_resync |= other.is_resync


class SpecialAccount:
    """The special names of one account. Only one task changes them at a time."""

    def __init__(self, account: str, shared: Shared) -> None:
        self.account = account
        self.plans = SpecialPlans()
        self.missed: set[ItemKey] = set()  # changed records that a resync found before the change log reported them
        self.was_tried = False  # whether the first attempt to serve the names has ended or was given up
        self.is_unavailable = False  # whether the store was unavailable in the latest attempt
        self._shared = shared
        self._entries: dict[str, SpecialEntry] = {}  # the entries of the stored list, by the id of their edge or tunnel
        self._handled: Mapping[str, SpecialEntry] = {}  # the entries that the running task handles
        self._records: AccountRecords | None = None
        self._read_ids: frozenset[str] = frozenset()  # ids of the edges and tunnels in `_records`
        self._closed: frozenset[str] = frozenset()  # edges and tunnels with unread records: their hosts are closed
        self._all_hosts = AccountHosts()  # all hosts of the account, read only if a special name is a wildcard
        self._clusters: list[Resource] = []
        self._requirements: Mapping[str, str] = {}  # the handshake requirement of each HTTPS host
        self._work, self._failed = _Work(), _Work()
        self._has_work = self._has_failed = False
        self._expires_at = float("inf")
        self._task: asyncio.Task[None] | None = None
        self._publishing = asyncio.Lock()

    @property
    def is_idle(self) -> bool:
        return self._task is None

    @property
    def is_read(self) -> bool:
        """Return whether all records are read and published to Envoy. Malformed records do not count."""
        return self.is_idle and not self._has_failed

    @property
    def is_empty(self) -> bool:
        """Return whether neither the stored list nor Envoy has special names of the account."""
        return self.is_idle and not self._entries and self.plans == SpecialPlans() and not self._has_failed

    @property
    def hosts(self) -> frozenset[str]:
        """Return the special hosts and ports, as host or host:port."""
        return frozenset(name for entry in self._entries.values() for name in special_plans.list_names(entry))

    def covers(self, name: str) -> bool:
        """Return whether a name is special, or was special in the plans that Envoy has."""
        hosts = self.hosts | self._requirements.keys()
        return name in hosts or f"{WILDCARD}{name.partition('.')[2]}" in hosts

    def put_first(self, entry: SpecialEntry) -> None:
        """Add an entry at the start of control. Its hosts are closed while its records cannot be read."""
        self._closed |= {entry.owner.id}
        self.put(entry.owner.id, entry)

    def put(self, id: str, entry: SpecialEntry | None) -> None:
        """Replace the entry of an edge or tunnel; None removes the entry."""
        if self._entries.get(id) != entry:
            self._entries = {key: entry for key, entry in {**self._entries, id: entry}.items() if entry}
            self.wake()

    def change(self, item_keys: Iterable[ItemKey]) -> None:
        """Schedule another read of changed records."""
        self._work.changed.update(item_keys)
        self.wake()

    def resync(self) -> None:
        """Schedule a resync. Changed records that are missing from the change log are added to `missed`."""
        self._work.is_resync = True
        self.wake()

    def check(self) -> None:
        """Repeat failed reads, and plan again if a lease or certificate has begun or ended."""
        if self._expires_at <= time.time():
            self._expires_at = float("inf")
            self.change(self._find_lapsed())
        if self._has_failed:
            self._has_failed, failed, self._failed = False, self._failed, _Work()
            self._work.merge(failed)
            self.wake()

    def wake(self) -> None:
        """Start the task that does pending reads and plans all names again, unless the task runs already."""
        self._has_work = True
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def close_late(self) -> None:
        """Close the account's hosts until the first read of its records ends, if it has not ended yet."""
        if not self.was_tried:
            await self._close_unread()
            self.was_tried = True

    async def _run(self) -> None:
        try:
            while self._has_work:
                self._has_work, work, self._work = False, self._work, _Work()
                if not await self._try(work):
                    self._failed.merge(work)
                    self._has_failed = True
                    return
        finally:
            self._task = None

    async def _try(self, work: _Work) -> bool:
        """Read records, and send the resources for them to Envoy.

        Return False if the store is unavailable, or if the account's records cannot be handled.
        """
        self._handled = self._entries
        try:
            await self._read(work)
            await self._publish()
            self.is_unavailable = False
        except Exception as error:
            self.is_unavailable = isinstance(error, Unavailable)
            if not self.is_unavailable:
                log.failure("special_names_failed", error, account=self.account)
            await self._close_unread()
            return False
        finally:
            self.was_tried = True
        return True

    async def _close_unread(self) -> None:
        """Close the hosts with records that could not be read since the start: connections to them fail.

        Otherwise, Envoy would accept the connections, and answer 421.
        """
        if self._list_closed() != self.plans.closed:
            try:
                await self._publish()
            except Exception as error:
                log.failure("special_names_failed", error, account=self.account)

    def _list_closed(self) -> frozenset[str]:
        return special_plans.list_hosts(entry for id, entry in self._handled.items() if id in self._closed)

    async def _read(self, work: _Work) -> None:
        """Read changed records, and all records of new entries. Without entries, forget all records."""
        shared, ids = self._shared, frozenset(self._handled)
        is_kept = self._read_ids <= ids  # if an entry was removed, discard the records and read all again
        records, had = (self._records, self._read_ids) if is_kept else (None, frozenset[str]())
        try:
            if records and work.changed:
                records = await shared.run(shared.reader.read_changed, records, work.changed)
            if records and work.is_resync:
                records = await self._resync(records)
        except Undecodable:
            records, had = None, frozenset()  # read all records again. `_read_entries` leaves out the malformed one
        records, more = await self._read_entries(sorted(ids - had), records)
        if any(host.startswith(WILDCARD) for host in special_plans.list_hosts(self._handled.values())):
            self._all_hosts = await shared.run(shared.list_hosts, self.account)
        self._records, self._read_ids = records, had | more
        self._closed = ids - self._read_ids
        used = gateway_users.list_gateways(self._records) if self._records else frozenset[str]()
        shared.gateway_users.put(self.account, used | self._all_hosts.gateways)

    async def _read_entries(
        self, ids: Sequence[str], records: AccountRecords | None
    ) -> tuple[AccountRecords | None, frozenset[str]]:
        """Add the records of edges and tunnels to `records`.

        Also return the ids that could be read. An edge or tunnel with a malformed record is left out.
        """
        if not ids:
            return records, frozenset()
        try:
            return await self._shared.run(self._shared.reader.read_items, self.account, ids, records), frozenset(ids)
        except Undecodable:
            if len(ids) == 1:
                return records, frozenset()
        middle = len(ids) // 2
        records, first = await self._read_entries(ids[:middle], records)
        records, second = await self._read_entries(ids[middle:], records)
        return records, first | second

    async def _resync(self, records: AccountRecords) -> AccountRecords:
        """Read all records again. Add to `missed` each changed record that the change log has not reported."""
        lapsed = self._find_lapsed()
        new_records: AccountRecords = await self._shared.run(self._shared.reader.resync, records)
        both = records.versions.keys() & new_records.versions.keys()
        self.missed |= records.find_differences(new_records, both) - lapsed - self._work.changed
        return new_records

    async def _publish(self) -> None:
        """Plan all special names, and send the differences to Envoy."""
        async with self._publishing:  # `close_late` also publishes, possibly at the same time as the account's task
            await self._plan_and_send()

    async def _plan_and_send(self) -> None:
        shared, now = self._shared, time.time()
        records = self._records or AccountRecords(self.account, frozenset())
        service = shared.service()
        read = [entry for id, entry in self._handled.items() if id in self._read_ids]
        plans = special_plans.make_plans(read, records, service, self._all_hosts.hosts, self._list_closed())
        view = AccountView(records, service)
        clusters, former = shared.serving.build_clusters(plans, view), self._clusters
        if clusters != former:
            all_clusters = {cluster.key: cluster for cluster in (*former, *clusters)}
            await shared.publisher.hold(self._owner, all_clusters.values())
        requirements = special_plans.find_requirements(plans)
        await shared.publisher.wait_for_scopes(special_plans.find_changed(self._requirements, requirements))
        await shared.publisher.publish(shared.serving.update(plans, view))
        self._requirements = requirements
        if clusters != former:
            await shared.publisher.hold(self._owner, clusters)
        self.plans, self._clusters, self._expires_at = plans, clusters, records.find_next_expiry(now)

    @property
    def _owner(self) -> str:
        """Return the name under which `Publisher.hold` counts the account's clusters. No host can have this name."""
        return f"Special/{self.account}"

    def _find_lapsed(self) -> set[ItemKey]:
        """Return the primary keys of tunnel records with an ended lease."""
        return {*self._records.list_lapsed(time.time())} if self._records else set()
