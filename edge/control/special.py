"""Special names: hosts and ports that Envoy must know before a visitor comes, so they stay loaded.

The store has a list with an entry for each edge or tunnel that has special names. At start, control reads this list,
and then the records of these edges and tunnels.

A handshake requirement is an edge's TLS version, or a digest if the edge demands client certificates or OAuth. It is
part of the name of Envoy's scope, which contains the routes of a loaded name.
"""

import asyncio
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from chalicelib import domains
from chalicelib.model.accounts import accounts
from chalicelib.model.names import special_names
from chalicelib.model.names.special_names import SpecialEntry, SpecialOwner
from chalicelib.model.serving.edge_plans import Plan
from chalicelib.model.tunnels import tunnels
from chalicelib.model.tunnels.gateways import GATEWAYS
from chalicelib.model.tunnels.tunnels import ServedTunnel
from chalicelib.storage.records.change_log import ItemKey
from edge.control.names.key_changes import PROVED
from edge.control.special_account import Shared, SpecialAccount
from edge.envoy import edge_listeners
from edge.envoy.ads.discovery import Discovery
from edge.envoy.names import managers
from edge.envoy.resources import PORT_PREFIX, Changes, Resource, split_stages
from edge.plan.names import NamePlan
from edge.process import log
from edge.process.tasks import PeriodicTask
from edge.serving.order import Sender
from edge.store import control_records, threads
from edge.store.records import Unavailable

_CHECK_PERIOD, _IDLE = 0.5, 60.0  # seconds between two checks: if there are accounts, and if there are no accounts
_ANSWER_TIMEOUT = 1.0  # seconds to wait for Envoy's answers before sending a change that depends on them
_FORM_POLL = 0.01


class EnvoyPublisher:
    """Implements special_account.Publisher."""

    def __init__(self, discovery: Discovery, sender: Sender) -> None:
        self._discovery, self._sender = discovery, sender

    async def hold(self, owner: str, clusters: Iterable[Resource]) -> None:
        await self._sender.hold(owner, clusters)

    async def wait_for_scopes(self, requirements: Mapping[str, str]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_ANSWER_TIMEOUT):
                while not all(self._has_scope(host, requirement) for host, requirement in requirements.items()):
                    await asyncio.sleep(_FORM_POLL)

    def _has_scope(self, host: str, requirement: str) -> bool:
        """Return whether each loaded name that matches a host has a scope for this handshake requirement."""
        loaded = self._sender.scopes
        return all(loaded[name].name == managers.scope_of(name, requirement) for name in _names_at(host, loaded))

    async def publish(self, changes: Changes) -> None:
        stages = [stage for stage in split_stages(changes) if stage]
        for number, stage in enumerate(stages, start=1):
            sent = self._discovery.apply(stage)
            if number < len(stages):
                await self._discovery.wait_until_settled(sent, timeout=_ANSWER_TIMEOUT)


class SpecialNames:
    """The special names and ports of all accounts on one edge host."""

    def __init__(
        self, shared: Shared, *, resync_period: float = 180, patience: float = 10, timeout: float = 10
    ) -> None:
        """Begin without names. `resync_period` is the seconds between two reads of all records of an account.

        `start` waits `patience` seconds for accounts with records that cannot be read. It ends earlier if no account's
        first read ends for `timeout` seconds.
        """
        self._shared, self._resync_period = shared, resync_period
        self._patience, self._timeout = patience, timeout
        self._accounts: dict[str, SpecialAccount] = {}
        self._unread: set[SpecialOwner] = set()  # edges and tunnels: their entries in the stored list have changed
        self._reading: set[SpecialOwner] = set()  # edges and tunnels with an entry that is being read now
        self._waiting: dict[str, set[ItemKey]] = {}  # changed records of each account, to read after its entries
        self._resync_at: dict[str, float] = {}  # the monotonic time of each account's next resync
        self._suspects: set[ItemKey] = set()  # changes that a resync found, but the change log has not reported
        self._checking = PeriodicTask("special_names", self.check, _CHECK_PERIOD)

    @property
    def names(self) -> frozenset[str]:
        """Return all special names, as host or host:port."""
        return frozenset(name for account in self._accounts.values() for name in account.hosts)

    @property
    def is_busy(self) -> bool:
        """Return whether any account has unfinished work."""
        return self._is_reading or not all(account.is_idle for account in self._accounts.values())

    @property
    def is_complete(self) -> bool:
        """Return whether all work is done, and the store has answered for every account."""
        return not self.is_busy and not any(account.is_unavailable for account in self._accounts.values())

    def is_changing(self, account: str) -> bool:
        """Return whether the special names of an account have unfinished work."""
        special_account = self._accounts.get(account)
        return self._has_unread(account) or (special_account is not None and not special_account.is_idle)

    async def start(self, report: Callable[[str], None]) -> None:
        """Load all special names, and report the progress. Raises Unavailable.

        After some seconds, the names of accounts that cannot be read, or whose first read does not end, are closed:
        connections to them fail. A later check reads the accounts.
        """
        for entry in await threads.call(control_records.list_special_names):
            self._account(entry.owner.account).put_first(entry)
        reported, deadline = -1, 0.0
        while (tried := sum(account.was_tried for account in self._accounts.values())) < len(self._accounts):
            if tried != reported:
                reported, deadline = tried, time.monotonic() + self._timeout
                with suppress(OSError):  # control starts even if the report fails, for example on a full disk
                    report(f"the control process is reading special names: {tried} of {len(self._accounts)} accounts")
            elif time.monotonic() > deadline:
                await asyncio.gather(*(account.close_late() for account in self._accounts.values()))
                return
            await asyncio.sleep(_FORM_POLL)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                while not all(account.is_read for account in self._accounts.values()):
                    await asyncio.sleep(_FORM_POLL)

    def apply(self, item_keys: Iterable[ItemKey]) -> None:
        """Handle the changes that a read of the change log returned, if any."""
        changed = set(item_keys)
        for item_key in self._suspects - changed:
            log.event("change_missed", id=item_key.id)
        self._suspects = {item_key for account in self._accounts.values() for item_key in account.missed} - changed
        self._unread |= {owner for item_key in changed if (owner := special_names.find_owner(item_key))}
        for item_key in changed:
            for account in self._accounts_of(item_key):
                self._change(account, item_key)
        if self._unread or self._waiting:
            self._checking.wake()
        for account in self._accounts.values():
            account.missed.clear()

    def add(self, entry: SpecialEntry) -> None:
        """Add an entry that the stored list lacks. An earlier version of the API did not write one for each edge."""
        self._account(entry.owner.account).put(entry.owner.id, entry)

    def carry_over(self, plan: NamePlan) -> None:
        """Add an entry for a plan's special name. Do nothing if the account already has an entry for the name."""
        account = self._accounts.get(plan.account)
        if account and account.covers(plan.name):
            return
        if plan.edge:
            self.add(SpecialEntry(SpecialOwner(plan.account, plan.edge.edge.id), tuple(plan.edge.edge.hostports)))
        elif plan.site:
            hostports = (tunnels.hostport_of(plan.name),)
            self.add(SpecialEntry(SpecialOwner(plan.account, plan.site.tunnel.id), hostports))

    def replan(self) -> None:
        """Plan all names again, after a change of the operator's certificate or managed OAuth applications."""
        for account in self._accounts.values():
            account.wake()

    async def wait_until_settled(self, name: str) -> None:
        """Wait, at most a second, until no change of a special name that matches `name` is pending."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_ANSWER_TIMEOUT):
                while self._is_reading or any(
                    not account.is_idle for account in self._accounts.values() if account.covers(name)
                ):
                    await asyncio.sleep(_FORM_POLL)

    def plan_of(self, edge: str) -> Plan | None:
        """Return the plan of a special edge, or None."""
        plans = (plan for account in self._accounts.values() for plan in account.plans.edges)
        return next((plan for plan in plans if plan.edge.id == edge), None)

    def find_plan(self, listener: str) -> Plan | None:
        """Return the plan of the edge to which a listener belongs, or None."""
        kind, _, name = listener.partition("/")
        if kind == "edge":
            return self.plan_of(name.partition("/")[0])
        plans = (plan for account in self._accounts.values() for plan in account.plans.ports)
        return next((plan.edge for plan in plans if f"{PORT_PREFIX}{plan.port}" == listener and plan.edge), None)

    def list_listeners(self, edge: str) -> list[str]:
        """Return the names of a special edge's listeners."""
        names = [edge_listeners.find_name(plan)] if (plan := self.plan_of(edge)) else []
        plans = (plan for account in self._accounts.values() for plan in account.plans.ports)
        return [*names, *(f"{PORT_PREFIX}{plan.port}" for plan in plans if plan.edge and plan.edge.edge.id == edge)]

    def tunnel_at(self, port: str) -> ServedTunnel | None:
        """Return the tunnel that has a port, or None."""
        plans = (plan for account in self._accounts.values() for plan in account.plans.ports)
        return next((plan.tunnel for plan in plans if plan.port == port and plan.tunnel), None)

    async def serve(self) -> None:
        """Read changed entries of the stored list, and check the accounts, until cancelled."""
        try:
            await self._checking.run()
        finally:
            await asyncio.gather(*(account.stop() for account in self._accounts.values()))

    async def check(self) -> float:
        """Read changed entries of the stored list, then check each account. Start a resync if it is due.

        Return the pause until the next check, which repeats failed reads.
        """
        if self._unread or self._waiting:
            await self._read_entries()
        now = time.monotonic()
        for account in list(self._accounts.values()):
            account.check()
            if self._resync_at[account.account] <= now:
                self._resync_at[account.account] = now + self._resync_period
                account.resync()
            if account.is_empty:
                del self._accounts[account.account], self._resync_at[account.account]
        return _CHECK_PERIOD if self._accounts or self._unread else _IDLE

    @property
    def _is_reading(self) -> bool:
        """Return whether changed entries are unread, or changed records wait for changed entries."""
        return bool(self._unread or self._reading or self._waiting)

    def _change(self, account: SpecialAccount, item_key: ItemKey) -> None:
        """Read a changed record again, but only after the changed entries of its account.

        If the record were read first, connections to a name would fail for a moment when a tunnel takes the name over.
        """
        if self._has_unread(account.account):
            self._waiting.setdefault(account.account, set()).add(item_key)
        else:
            account.change([item_key])

    def _has_unread(self, account: str) -> bool:
        """Return whether changed entries of an account are unread, or changed records wait for these entries."""
        return account in self._waiting or any(owner.account == account for owner in self._unread | self._reading)

    async def _read_entries(self) -> None:
        """Read changed entries, then handle the changed records that waited. The next check repeats a failed read."""
        self._reading, self._unread = self._unread, set()
        waiting, self._waiting = self._waiting, {}
        try:
            entries = await threads.call(special_names.read, self._reading)
        except Unavailable:
            self._unread |= self._reading
            for id, item_keys in waiting.items():
                self._waiting.setdefault(id, set()).update(item_keys)
        else:
            for owner in self._reading:
                self._account(owner.account).put(owner.id, entries.get(owner))
            for id, item_keys in waiting.items():
                self._account(id).change(item_keys)
        finally:
            self._reading = set()

    def _account(self, account: str) -> SpecialAccount:
        if account not in self._accounts:
            self._accounts[account] = SpecialAccount(account, self._shared)
            self._resync_at[account] = time.monotonic() + self._resync_period * _share_of(account)
            self._checking.wake_within(_CHECK_PERIOD)
        return self._accounts[account]

    def _accounts_of(self, item_key: ItemKey) -> list[SpecialAccount]:
        """Return the accounts that a changed record may affect."""
        if item_key.scope == GATEWAYS:
            users = self._shared.gateway_users.of(item_key.id)
            return [self._accounts[user] for user in users if user in self._accounts]
        if item_key.scope.startswith(PROVED):
            domain = item_key.scope.removeprefix(PROVED)
            candidates = self._accounts.values()
            return [account for account in candidates if any(_is_proved_by(host, domain) for host in account.hosts)]
        account = item_key.id if item_key.scope == accounts.SCOPE else item_key.scope.partition("#")[0]
        return [self._accounts[account]] if account in self._accounts else []


def _names_at(host: str, names: Iterable[str]) -> Iterable[str]:
    """Return the names that match a host, which can be a wildcard."""
    if host.startswith(domains.WILDCARD):
        return [name for name in names if f"{domains.WILDCARD}{name.partition('.')[2]}" == host]
    return {host}.intersection(names)


def _is_proved_by(name: str, domain: str) -> bool:
    """Return whether the proof of a domain can affect a special name. A wildcard is affected by any name below it."""
    host, at = name.partition(":")[0], domain.removeprefix(domains.WILDCARD)
    is_above = host.startswith(domains.WILDCARD) and domains.is_below(at, host.removeprefix(domains.WILDCARD))
    return is_above or domains.is_below(host, at)


def _share_of(account: str) -> float:
    """Return a number from 0 to 1 for an account. So the first resyncs of accounts are at different times."""
    return zlib.crc32(account.encode()) / (1 << 32)
