"""Loads, updates and unloads the names of one account, one step after the other.

A resync is a read of all records of the account, in case the change log lacks a change.
"""

import asyncio
import random
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from chalicelib.model.accounts import accounts
from chalicelib.model.serving.edge_plans import Plan
from chalicelib.model.tunnels import gateways
from chalicelib.storage.records.change_log import ItemKey
from edge.control.names.account_plans import AccountPlans
from edge.control.names.gateway_users import GatewayUsers
from edge.control.names.key_changes import BASE_NAME, PROVED
from edge.control.names.loading import Loading, Outcome
from edge.control.names.searches import SearchResult
from edge.plan import cold_reads
from edge.process import log
from edge.store.records import Unavailable, Undecodable

_MAX_WAITING = 200  # the most names of an account that wait to be loaded. Further names get the outcome "busy"


@dataclass
class _Steps:
    """The pending steps for an account. They are done in the order of these fields."""

    changed: set[ItemKey] = field(default_factory=set)
    is_replanned: bool = False
    ended_pages: set[str] = field(default_factory=set)
    requests: dict[str, SearchResult | None] = field(default_factory=dict)
    without_secret: set[str] = field(default_factory=set)
    unused: set[str] = field(default_factory=set)
    is_resynced: bool = False

    def __bool__(self) -> bool:
        return any(vars(self).values())


class AccountNames:
    """The loaded names of one account. Only one task changes them, so an earlier plan never replaces a later one."""

    def __init__(self, account: str, shared: Loading) -> None:
        self.account = account
        # The first resync is at a random time, so that the accounts are not all read at the same time.
        self.resync_at = time.monotonic() + shared.resync_period * random.uniform(0.5, 1)
        self._shared, self._plans = shared, AccountPlans(account, shared)
        self._work = _Steps()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Return whether the account has no loaded names and no pending steps."""
        return not (self._plans.plans or self._work or self.is_busy)

    @property
    def is_busy(self) -> bool:
        return self._task is not None

    @property
    def is_full(self) -> bool:
        """Return whether the account has as many waiting names as one account may have.

        All accounts of the host also share a limit on waiting names. One account must not use that limit up.
        """
        return len(self._work.requests) >= _MAX_WAITING

    def is_affected_by_proof(self, item_key: ItemKey) -> bool:
        """Return whether the proof of a domain can affect a requested name, a loaded name, or a loaded name's edge."""
        domain = item_key.scope.removeprefix(PROVED)
        is_wanted = any(cold_reads.is_proved_by(name, domain) for name in self._work.requests)
        return is_wanted or self._plans.records.is_affected_by(item_key)

    def find_plan(self, edge: str) -> Plan | None:
        """Return the current plan of an edge.

        Return None if no name of the edge is loaded, or if the plan may be outdated, because the account has unfinished
        work or unread changes.
        """
        edge_plans = (plan.edge or plan.refused_by for plan in self._plans.plans.values())
        is_current = not (self.is_busy or self._work or self._plans.unread)
        return next((plan for plan in edge_plans if plan and plan.edge.id == edge), None) if is_current else None

    def want(self, name: str, result: SearchResult | None = None) -> None:
        """Load a name, or send its certificate again. `result` is the result of the search for the name's account."""
        self._work.requests[name] = result
        self._wake()

    def release(self, name: str) -> None:
        """Forget a name that is not served any more and now belongs to another account."""
        self._plans.release(name)

    def change(self, item_keys: Iterable[ItemKey]) -> None:
        """Read changed records again, and update the names that use them."""
        self._work.changed.update(item_keys)
        self._work.requests = dict.fromkeys(self._work.requests)  # drop the search results: they may be outdated now
        self._wake()

    def replan(self) -> None:
        """Plan all names again, for example after a renewal of the operator's certificate."""
        self._work.is_replanned = True
        self._wake()

    def check(self) -> None:
        """Start the steps that are due: a resync, a repeated read, or new plans after a lease has ended."""
        if self._plans.unread:
            self.change(self._plans.unread)
        if self.resync_at <= time.monotonic():
            self.resync_at += self._shared.resync_period
            self._work.is_resynced = True
            self._wake()
        if self._plans.has_unread_keys:
            self.replan()
        if self._plans.expires_at <= (now := time.time()):
            self._plans.expires_at = float("inf")
            self.change(self._plans.records.list_lapsed(now))
            self.replan()

    def end_page(self, name: str) -> None:
        """Schedule the removal of a name's 404 page from Envoy, unless the name is served before the removal."""
        self._work.ended_pages.add(name)
        self._wake()

    def remove_secret(self, name: str) -> None:
        """Schedule the removal of a name's secret from Envoy. A request for the name cancels the removal."""
        self._work.without_secret.add(name)
        self._wake()

    def unload(self, name: str) -> None:
        """Schedule the unloading of a name that has no secret in Envoy. A request for the name cancels it."""
        self._work.unused.add(name)
        self._wake()

    def _wake(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._work:
                try:
                    await self._do_next(self._work)
                except Exception as error:
                    log.failure("name_failed", error, account=self.account)
        finally:
            self._task = None

    async def _do_next(self, work: _Steps) -> None:
        if work.changed:
            item_keys, work.changed = work.changed, set()
            await self._read_changed(item_keys)
            self._plans.report_again()
        elif work.is_replanned:
            work.is_replanned = False
            await self._plans.update_all()
        elif work.ended_pages:
            ended, work.ended_pages = work.ended_pages, set()
            await self._plans.end_pages(ended)
        elif work.requests:
            await self._load(next(iter(work.requests)))
        elif work.without_secret:
            unrequested, work.without_secret = work.without_secret, set()
            await self._plans.remove_secrets(unrequested)
        elif work.unused:
            unused, work.unused = work.unused, set()
            await self._plans.unload(unused)
        else:
            work.is_resynced = False
            await self._resync()

    async def _read_changed(self, item_keys: set[ItemKey]) -> None:
        is_loaded = bool(self._plans.names)  # without loaded names, nothing is read: the next load reads all records
        used = {item_key for item_key in item_keys if is_loaded and self._plans.records.is_affected_by(item_key)}
        self._plans.unread -= item_keys - used
        if not used:
            return
        try:
            read = self._shared.reader.read_changed
            by_name = dict(self._plans.used)  # a copy, because names can be released while a thread reads
            records = await self._shared.reads.of_change(read, self._plans.records, used, by_name)
        except Exception as error:
            self._plans.unread |= used  # no further name of the account is loaded until these records can be read
            if isinstance(error, Unavailable) and not isinstance(error, Undecodable):
                return
            # Errors of other types than these can come from a malformed record. Refuse the names that use the record.
            if not isinstance(error, OSError | RuntimeError | MemoryError):
                await self._plans.refuse_unreadable(used)
            raise
        self._plans.unread -= used
        await self._plans.replace(records)

    async def _load(self, name: str) -> None:
        """Load a wanted name. If records of its account changed meanwhile, read them before refusing the name."""
        try:
            outcome = await self._try_load(name)
        except Unavailable as error:
            outcome = "failed" if isinstance(error, Undecodable) else "unavailable"
        except Exception as error:
            log.failure("name_failed", error, account=self.account)
            outcome = "failed"
        if outcome in ("unserved", "closed") and self._work.changed:
            return
        self._work.requests.pop(name)
        await self._shared.answer(name, self.account, outcome, self._plans.find_pair(name))

    async def _try_load(self, name: str) -> Outcome:
        """Load a name. Raises Unavailable if the store fails, or while changed records of the account are unread."""
        is_new = name not in (names := self._plans.names)
        if self._plans.unread and (is_new or name in self._plans.unreadable):
            raise Unavailable("changed records")
        if is_new:
            await self._read(name, names)
        return await self._plans.load(name)

    async def _read(self, name: str, names: frozenset[str]) -> None:
        """Read the records of a name, unless the search for its account has already read them.

        The search reads the records only if the account has no other loaded names.
        """
        reader, records, result = self._shared.reader, self._plans.records, self._work.requests[name]
        if result and result.records and not names:
            await self._plans.replace(result.records, result.pairs)
            return
        if records.names - names:
            records = reader.keep(records, names)
        read = self._shared.reads.for_visitor(reader.read, self.account, name, records if names else None)
        await self._plans.replace(await read)

    async def _resync(self) -> None:
        if not self._plans.names:
            return
        before = self._shared.reader.keep(self._plans.records, self._plans.names)
        try:
            records = await self._shared.reads.of_change(self._shared.reader.resync, before)
        except Unavailable:
            return  # a failed resync is not repeated: the next one is scheduled already
        lapsed = before.list_lapsed(time.time())
        both = before.versions.keys() & records.versions.keys()
        differences = before.find_differences(records, both) - self._work.changed
        self._shared.missed.update(differences - lapsed)
        await self._plans.replace(records)


def find_affected(
    item_key: ItemKey, loaded_accounts: Mapping[str, AccountNames], gateway_users: GatewayUsers
) -> Iterable[str]:
    """Return the accounts that a changed record may affect. `loaded_accounts` maps ids of accounts to their names."""
    if item_key.scope == gateways.GATEWAYS:
        return gateway_users.of(item_key.id)
    if item_key.scope.startswith(PROVED):
        return [id for id, names in loaded_accounts.items() if names.is_affected_by_proof(item_key)]
    if item_key.scope.startswith(BASE_NAME):
        return ()  # nothing to do: the log also reports the tunnel, edge or reservation with this base name
    return (item_key.id if item_key.scope == accounts.SCOPE else item_key.scope.partition("#")[0],)
