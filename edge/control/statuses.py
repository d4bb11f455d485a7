"""What Envoy rejected of edges, as statuses that this host writes, independent of serving.

Changes in quick succession are written together. One account's writes do not delay those of others.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import ParamSpec, TypeVar

from chalicelib import clock
from chalicelib.model.edges.edge_status import EdgeStatus, HostportStatus
from chalicelib.model.serving import edge_states
from chalicelib.model.serving.edge_plans import Plan, PlannedHost
from edge.control.status import redact
from edge.process import log
from edge.store.records import Store, Unavailable

P = ParamSpec("P")
R = TypeVar("R")

_POLL = 0.2  # seconds between checks of pending writes
_WRITE_PAUSE = 2.0  # seconds between two writes for one edge
_MAX_WRITES, _MAX_WRITES_OF_ACCOUNT = 16, 4  # concurrent writes
_RENEWAL_PERIOD, _LEASE = 20.0, 60  # seconds
_WITHDRAW_TIMEOUT = 5.0  # seconds to wait for the store at shutdown
_GRACE = 60 * 60  # seconds until the statuses of a lost host are removed


@dataclass
class _Rejected:
    """What Envoy rejected of an edge revision: errors by hostport."""

    account: str
    revision: int
    errors: dict[str, str] = field(default_factory=dict)


class Statuses:
    """Writes the statuses of one edge host: only of edges of which Envoy rejected something.

    `has_envoy` returns whether Envoy is connected, `operator_names` the names in the operator's certificate.
    """

    def __init__(
        self, store: Store, host: str, has_envoy: Callable[[], bool], operator_names: Callable[[], Iterable[str]]
    ) -> None:
        self._store, self._host, self._has_envoy, self._operator_names = store, host, has_envoy, operator_names
        self._rejected: dict[str, _Rejected] = {}  # by edge
        self._written: dict[str, tuple[str, EdgeStatus]] = {}  # account and status by edge
        self._not_before: dict[str, float] = {}  # the next permitted write of an edge
        self._pending: dict[str, tuple[str, EdgeStatus | None]] = {}  # the next write of an edge: account and status
        self._failed: dict[str, tuple[str, EdgeStatus | None]] = {}  # writes to repeat if they fail
        self._writing: dict[str, tuple[str, asyncio.Task[None]]] = {}
        # Separate threads, so that slow writes delay nothing else; one more for the removal of other hosts.
        self._threads = ThreadPoolExecutor(_MAX_WRITES + 1, "statuses")
        self._announcer = ThreadPoolExecutor(1, "announcing")  # one thread keeps the order: the withdrawal comes last
        self._is_announced = False

    def report(self, plan: Plan, host: PlannedHost, error: str) -> None:
        """Handle Envoy's answer about a host of an edge: its error, or "" if it accepted the plan."""
        edge, hostport = plan.edge, edge_states.hostport_of(host)
        known = self._rejected.get(edge.id)
        if known is None or known.revision != edge.revision:
            known = _Rejected(edge.account, edge.revision)
        before = dict(known.errors)
        if error:
            known.errors[hostport] = redact(error, _own_ids(plan))
        else:
            known.errors.pop(hostport, None)
        if known.errors != before:
            self._rejected[edge.id] = known
            self._schedule(edge.id, edge.account)

    def forget(self, edges: Iterable[str]) -> None:
        """Forget the errors of edges that changed."""
        for id in self._rejected.keys() & set(edges):
            self._schedule(id, self._rejected.pop(id).account)

    def errors_of(self, edge: str, revision: int) -> Mapping[str, str]:
        """Return Envoy's errors about a revision of an edge, by hostport."""
        found = self._rejected.get(edge)
        return dict(found.errors) if found and found.revision == revision else {}

    async def serve(self) -> None:
        """Write changed statuses, until cancelled."""
        renewing = asyncio.create_task(self._renew_lease())
        try:
            await self._read_previous()
            while True:
                self._start_writes()
                await asyncio.sleep(_POLL)
        finally:
            for task in (renewing, *(task for _, task in self._writing.values())):
                task.cancel()
            await self._withdraw()
            self._threads.shutdown(wait=False)
            self._announcer.shutdown(wait=False)

    async def _renew_lease(self) -> None:
        """Renew the lease of this host while its Envoy is connected."""
        while True:
            with suppress(Unavailable):
                if self._has_envoy():
                    self._is_announced = True
                    await self._announce(_LEASE)
                    await self._call(self._store.remove_lapsed_hosts, grace=_GRACE)
            await asyncio.sleep(_RENEWAL_PERIOD if self._has_envoy() else _POLL)

    async def _withdraw(self) -> None:
        """End the lease of this host, so that readers ignore its statuses. They stay stored for its next start."""
        if self._is_announced:
            with suppress(Unavailable, TimeoutError):
                await asyncio.wait_for(self._announce(0), _WITHDRAW_TIMEOUT)

    async def _announce(self, lease: int) -> None:
        announce = partial(self._store.announce_host, self._host, self._operator_names(), lease=lease)
        await asyncio.get_running_loop().run_in_executor(self._announcer, announce)

    async def _read_previous(self) -> None:
        """Read the statuses that this host wrote before it started, to remove those that do not apply any more."""
        while True:
            with suppress(Unavailable):
                found = await self._call(self._store.list_statuses, self._host)
                self._written = {edge: (account, it) for (account, edge), it in found.items()}
                return self._pending.update(
                    {
                        edge: (account, None)
                        for edge, (account, _) in self._written.items()
                        if edge not in self._rejected
                    }
                )
            await asyncio.sleep(_WRITE_PAUSE)

    def _schedule(self, edge: str, account: str) -> None:
        """Write or remove the status of an edge soon."""
        found, at = self._rejected.get(edge), clock.rfc3339(clock.now())
        status = None
        if found and found.errors:
            parts = (HostportStatus(name, "refused", at, error) for name, error in sorted(found.errors.items()))
            status = EdgeStatus("refused", found.revision, at, tuple(parts))
        else:
            self._rejected.pop(edge, None)
        self._pending[edge] = account, status

    def _start_writes(self) -> None:
        """Start pending writes within the limits."""
        now, of_account = time.monotonic(), Counter(account for account, _ in self._writing.values())
        for edge, (account, wanted) in list(self._pending.items()):
            if of_account.total() >= _MAX_WRITES:
                return
            is_next = edge not in self._writing and self._not_before.get(edge, 0) <= now
            if is_next and of_account[account] < _MAX_WRITES_OF_ACCOUNT:
                del self._pending[edge]
                if wanted != self._written.get(edge, ("", None))[1]:
                    of_account[account] += 1
                    self._failed[edge] = account, wanted
                    task = asyncio.create_task(self._write(account, edge, wanted))
                    self._writing[edge] = account, task
                    task.add_done_callback(partial(self._on_written, edge))

    async def _write(self, account: str, edge: str, wanted: EdgeStatus | None) -> None:
        self._not_before[edge] = time.monotonic() + _WRITE_PAUSE
        if wanted:
            await self._call(self._store.write_status, account, edge, self._host, wanted)
            self._written[edge] = account, wanted
        else:
            await self._call(self._store.remove_status, account, edge, self._host)
            del self._written[edge], self._not_before[edge]

    def _on_written(self, edge: str, task: asyncio.Task[None]) -> None:
        del self._writing[edge]
        if task.cancelled():
            return
        if error := task.exception():
            log.event("status_unwritten", edge=edge, error=type(error).__name__)
            if edge not in self._pending:
                self._pending[edge] = self._failed.pop(edge)
        self._start_writes()

    async def _call(self, ask: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: ask(*arguments, **named))


def _own_ids(plan: Plan) -> frozenset[str]:
    certificates = {it.certificate for it in plan.hosts}
    return frozenset({plan.edge.id, *(it.id for it in plan.edge.routes), *certificates, *plan.backends})
