"""Loads the names that Envoy requests, keeps them current, and unloads them.

If several visitors request a name, it is loaded once. The reads of names that are not loaded (cold names) have a
budget. Visitors of names that are not served get a 404 page below TUNNEL_DOMAIN, or a refused handshake elsewhere.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterable
from itertools import cycle, islice
from typing import Any

from chalicelib import domains
from chalicelib.model.names import bans
from chalicelib.storage.records.change_log import ItemKey
from edge.control.names import loading
from edge.control.names.account_names import AccountNames, find_affected
from edge.control.names.key_changes import KeyChanges
from edge.control.names.loading import AccountReader, Loading, NameBuilder, NameSender, Outcome, Report, Request
from edge.control.names.reads import StoreReads
from edge.control.names.searches import Searches
from edge.control.names.turns import Turns
from edge.link.authority import KeyPair
from edge.plan import cold_reads
from edge.plan.cold_reads import ReadBudget, Unserved
from edge.plan.loaded import LoadedNames
from edge.process import log
from edge.process.name_metrics import NameMetrics
from edge.process.settings import Settings
from edge.process.tasks import PeriodicTask
from edge.store.records import Unavailable, Undecodable

_SWEEP, _PARTS = 0.5, 4  # seconds between sweeps. After each sweep, a different quarter of the accounts is checked
_RESYNC_PERIOD = 180.0  # seconds between two reads of all records of an account
_MAX_PENDING, _MAX_SEARCHES = 2000, 64  # the most names that load or wait, and the most concurrent searches
_MAX_RESTORING = 32  # names from Envoy's earlier configuration that are loaded at the same time


class Loader:
    """Loads the names of one edge host. Reads of cold names by other parts of control also use the loader's `budget`.

    `report` receives Envoy's errors about a plan, and an empty NameErrors when the name is unloaded.
    """

    def __init__(
        self,
        settings: Settings,
        reader: AccountReader,
        builder: NameBuilder,
        sender: NameSender,
        report: Report,
        reads: StoreReads,
        *,
        resync_period: float = _RESYNC_PERIOD,
    ) -> None:
        limits, self._domain = settings.limits, settings.tunnel_domain
        self.metrics = NameMetrics(limits.max_loaded_mib << 20)
        self._reader, self._builder, self._sender, self._reads = reader, builder, sender, reads
        self.loaded = LoadedNames(loading.find_bounds(limits))
        self.budget = ReadBudget(limits.max_cold_reads, self._domain, time.monotonic())
        bounds = limits.max_negative_answers, limits.max_unknown_names, limits.max_connection_duration
        self._unserved = Unserved(self._domain, *bounds)
        self._pages = self._unserved.pages
        self._missed = set[ItemKey]()  # changed records that a resync found before the change log reported them
        self._suspects = set[ItemKey]()  # missed records, which are logged if the next read of the log lacks them too
        self._accounts: dict[str, AccountNames] = {}
        self._pending: dict[str, Request] = {}  # names that are being loaded
        self._outdated: set[str] = set()  # pending names that may belong to another account since their search began
        self._searches = Searches(reader, reads, self._domain, lambda account: account in self._accounts)
        self._banned, self._turns = tuple[str, ...](), Turns(self._load, _MAX_SEARCHES)
        self._restored: set[str] = set()  # names that Envoy had when this process started, and that are not loaded yet
        self._tasks: set[asyncio.Task[None]] = set()
        state = self.loaded, self._pages, self._missed, report, self._answer, resync_period
        self._shared = Loading(reader, builder, sender, reads, *state)

    @property
    def is_busy(self) -> bool:
        """Return whether a name is being loaded, or any account has unfinished work."""
        return bool(self._pending) or any(account.is_busy for account in self._accounts.values())

    def find_names(self, account: str) -> AccountNames | None:
        """Return the loaded names of an account, or None."""
        return self._accounts.get(account)

    @property
    def secrets(self) -> int:
        """Return how many secrets (certificates with keys) Envoy has."""
        return self.loaded.secrets + len(self._pages)

    @property
    def is_restored(self) -> bool:
        """Return whether all names that Envoy had before control started are loaded or removed."""
        return not self._restored

    def request(self, names: Iterable[str]) -> None:
        """Load or refuse the server names for which Envoy requests secrets. Visitors may spell them with capitals."""
        refused = []
        for server_name in names:
            name = server_name.lower()
            if pending := self._pending.get(name):
                pending.server_names.add(server_name)
            elif reason := self._refusal(name, has_capitals=server_name != name):
                self.metrics.on_refusal(reason)
                refused.append(server_name)
            else:
                self._start(name, server_name)
        if refused:
            self._spawn(self._sender.refuse(refused))

    def restore(self, names: Iterable[str]) -> None:
        """Load the names that Envoy already has. They stay in service until the store answers."""
        self._restored.update(name for server_name in names if cold_reads.is_host(name := server_name.lower()))
        self._restore_next()

    def apply(self, item_keys: Iterable[ItemKey]) -> None:
        """Handle the changes that a read of the change log returned, if any."""
        changed = set(item_keys)
        self._searches.apply(changed)
        for item_key in self._suspects - changed:
            log.event("change_missed", id=item_key.id)
        self._suspects = self._missed - changed
        self._missed.clear()
        by_account: defaultdict[str, set[ItemKey]] = defaultdict(set)
        for item_key in changed:
            for account in find_affected(item_key, self._accounts, self._shared.gateway_users):
                by_account[account].add(item_key)
        for account in by_account.keys() & self._accounts.keys():
            self._accounts[account].change(by_account[account])
        key_changes = KeyChanges((item_key.scope for item_key in changed), self._domain)
        self._drop_answers(by_account.keys(), key_changes.concern)

    def ban(self, patterns: Collection[str]) -> None:
        """Set the banned patterns. Cold names that match a pattern count as unknown, and are not read."""
        lifted, self._banned = {*self._banned}.difference(patterns), tuple(patterns)
        self._drop_answers((), lambda name: bans.matches(name.lower(), lifted))

    def replan(self) -> None:
        """Plan all names again, after a change of the operator's certificate or managed OAuth applications."""
        for account in self._accounts.values():
            account.replan()

    def sweep(self, now: float) -> None:
        """Remove unused secrets, unused names and expired 404 pages. `now` is a monotonic time."""
        for loaded in self.loaded.take_unrequested(now):
            self._accounts[loaded.account].remove_secret(loaded.name)
        for loaded in self.loaded.list_unused(now):
            self._accounts[loaded.account].unload(loaded.name)
        self._end_pages(self._unserved.take_expired(now))
        self.budget.forget_idle(now)
        self._restore_next()
        self.metrics.loaded.set(len(self.loaded))
        self.metrics.loaded_bytes.set(self.loaded.kib << 10)

    async def serve(self) -> None:
        """Unload unused names, and check the loaded accounts, until cancelled."""
        turns = cycle(range(_PARTS))

        async def check() -> None:
            self.sweep(time.monotonic())
            self._check_accounts(list(self._accounts.values())[next(turns) :: _PARTS])

        try:
            await PeriodicTask("names", check, _SWEEP).run()
        finally:
            self._turns.cancel()
            for task in self._tasks:
                task.cancel()

    def _refusal(self, name: str, *, has_capitals: bool = False) -> str:
        """Return why a name is refused without a read of the store, or ""."""
        is_followed = self._is_followed(name)
        if is_followed and not has_capitals:  # each name has many spellings with capitals: these use the budget
            return ""
        if not is_followed and (refusal := self._cold_refusal(name)):
            return refusal
        return f"{exceeded}_budget" if (exceeded := self.budget.take(name, time.monotonic())) else ""

    def _cold_refusal(self, name: str) -> str:
        if name in self._unserved.refused:
            return "negative"
        if not cold_reads.is_host(name):
            return "invalid"
        if self._reads.is_away:
            return "unavailable"
        return "busy" if len(self._pending) >= _MAX_PENDING else ""

    def _start(self, name: str, *server_names: str) -> None:
        """Start to load a name, or to send its secret again."""
        self._pending[name] = Request(time.monotonic(), {*server_names})
        loaded = self.loaded.find(name)
        if loaded and self._is_followed(name):
            self._accounts[loaded.account].want(name)
        else:
            self._turns.add(name)

    def _is_followed(self, name: str) -> bool:
        """Return whether a name is loaded and not withdrawn. A withdrawn name may belong to another account now."""
        loaded = self.loaded.find(name)
        return loaded is not None and not loaded.is_withdrawn

    async def _load(self, name: str) -> None:
        self._outdated.discard(name)  # the search begins now, so it finds the current account
        if bans.matches(name, self._banned):
            return await self._answer(name, "", "unserved")
        if self._reads.is_away:  # the store failed while the name waited for its search
            return await self._answer(name, "", "unavailable")
        try:
            result = await self._searches.find(name)
        except Unavailable as error:
            await self._answer(name, "", "failed" if isinstance(error, Undecodable) else "unavailable")
        except Exception as error:
            log.failure("name_failed", error, account="")
            await self._answer(name, "", "failed")
        else:
            loaded, account = self.loaded.find(name), result.account
            if loaded and loaded.account != account and account:
                self._accounts[loaded.account].release(name)
            if account and account not in self._accounts:
                self._accounts[account] = AccountNames(account, self._shared)
            if not account or (of_account := self._accounts[account]).is_full:
                await self._answer(name, account, "busy" if account else "unserved")
            else:
                of_account.want(name, result)

    async def _answer(self, name: str, account: str, outcome: Outcome, pair: KeyPair | None = None) -> None:
        """Answer the visitors of a name who wait for Envoy to receive its secret.

        If the name may have another account since its search began, search for the account again before a refusal.
        """
        if name in self._outdated and outcome not in ("served", *loading.TEMPORARY_OUTCOMES):
            self._turns.add(name)
            return
        self._outdated.discard(name)
        pending = self._pending.pop(name)
        self.metrics.on_load(outcome, time.monotonic() - pending.since)
        if name in self._restored:
            if outcome in loading.TEMPORARY_OUTCOMES:
                return  # Envoy still serves the name, and `sweep` loads the name again
            self._restored.discard(name)
            self._restore_next()
            if outcome != "served":
                await self._sender.withdraw([name])
        if outcome == "served" and pair:
            await self._send_certificates(pending.server_names - {name}, account, pair)
        elif outcome == "unserved" and domains.is_below(name, self._domain):
            self._unserved.add_unknown(name, account, time.monotonic())
            await self._send_certificates(pending.server_names, account, self._builder.operator_pair())
        else:
            if outcome not in loading.TEMPORARY_OUTCOMES:
                self._unserved.refused.add(name, account, time.monotonic())
            await self._sender.refuse(pending.server_names | {name})

    async def _send_certificates(self, server_names: Iterable[str], account: str, pair: KeyPair) -> None:
        """Send certificates without routes, for unknown names and spellings with capitals. `sweep` removes them."""
        for server_name in server_names:
            if not self._pages.is_full or server_name in self._pages:
                self._pages.add(server_name, account, time.monotonic())
                if await self._sender.send(self._builder.build_certificate(server_name, pair)) is None:
                    continue
                self._pages.discard(server_name)
            await self._sender.refuse([server_name])

    def _drop_answers(self, changed: Collection[str], is_affected: Callable[[str], bool]) -> None:
        """Forget the unserved names of changed accounts, and unserved names for which `is_affected` returns true."""
        pages, visited = self._unserved.take_affected(changed, is_affected)
        self._outdated.update(filter(is_affected, self._pending))
        self._end_pages(pages)
        for name in visited:
            if name not in self._pending and not self._refusal(name):
                self._start(name)

    def _end_pages(self, names: Iterable[str]) -> None:
        """Remove 404 pages from Envoy. If a name is loaded, its AccountNames removes the page."""
        unfollowed = []
        for name in names:
            if loaded := self.loaded.find(name):
                self._accounts[loaded.account].end_page(name)
            else:
                unfollowed.append(name)
        if unfollowed:
            self._spawn(self._sender.withdraw(unfollowed))

    def _check_accounts(self, accounts: Iterable[AccountNames]) -> None:
        for account in accounts:
            if account.is_idle:
                del self._accounts[account.account]
                self._shared.gateway_users.remove(account.account)
            else:
                account.check()

    def _restore_next(self) -> None:
        """Start to load some of the names that Envoy had when control started, within the limit."""
        waiting = (name for name in self._restored if name not in self._pending)
        for name in list(islice(waiting, max(0, _MAX_RESTORING - len(self._pending.keys() & self._restored)))):
            self._start(name, name)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(task := asyncio.create_task(work))
        task.add_done_callback(self._tasks.discard)
