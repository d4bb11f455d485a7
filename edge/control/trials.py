"""Trials of changed edges. One live host connects to some names of an edge, and stores the result."""

import asyncio
import hashlib
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

from chalicelib import clock
from chalicelib.domains import WILDCARD
from chalicelib.model.base import kinds
from chalicelib.model.edges import edge_status
from chalicelib.model.edges.edge_status import Report
from chalicelib.model.edges.served import port_of
from chalicelib.model.serving.account_view import Service
from chalicelib.model.serving.edge_plans import Plan
from chalicelib.storage.records.change_log import ItemKey
from edge.control import rejections
from edge.control.rejections import Errors
from edge.control.special_account import ItemReader
from edge.envoy.filters import proxies
from edge.link import proxy_protocol
from edge.plan import names
from edge.process import log
from edge.process.settings import Settings
from edge.process.tasks import PeriodicTask
from edge.store.records import Unavailable
from edge.store.threads import Threads

# The least seconds between checks for due trials; seconds until a trial without a result is repeated.
_POLL, _PAUSE = 0.2, 2.0
_IDLE = 60.0  # seconds between checks for due trials, if none is scheduled
_TRIES = 5
_REPEAT = 600.0  # seconds until an edge with errors is tried again
_TIMEOUT = 5.0  # the most seconds for a TLS handshake, and for Envoy's answers about the edge's resources
_MAX_NAMES = 4  # the most names to which the trial of an edge connects
_MAX_TRIALS, _MAX_TRIALS_OF_ACCOUNT = 8, 2  # concurrent trials: of all accounts, of one account
_HOSTS_PERIOD = 1.0  # seconds between two reads of the live hosts
_LABEL = "edge-trial"  # the label that replaces the "*" of a wildcard
# If EDGE_HOST means every address, a trial connects to the loopback address.
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 (connects)

_Key = tuple[str, str]  # an account, and the id of one of its edges


@dataclass(frozen=True)
class EdgeHost:
    """The edge host that runs the trials: its settings, and its id among the live hosts.

    `is_changing` returns whether this host still has to handle a change of the account. `find_plan` returns the current
    plan of an edge, or None if none of the edge's names is loaded. `errors_of` returns Envoy's errors about the
    resources of a plan. `is_settled` returns whether Envoy has accepted or rejected all resources of a plan.
    """

    settings: Settings
    id: str
    reader: ItemReader
    service: Callable[[], Service]
    is_changing: Callable[[str], bool]
    find_plan: Callable[[str, str], Plan | None]
    errors_of: Callable[[Plan], Errors]
    is_settled: Callable[[Plan], bool]


class Trials:
    """Schedules and runs trials: test connections from this edge host to changed edges."""

    def __init__(self, host: EdgeHost) -> None:
        self._host = host
        # By edge: the monotonic time of its next trial, and the number of earlier trials without a result.
        self._due: dict[_Key, tuple[float, int]] = {}
        self._tasks: dict[_Key, asyncio.Task[None]] = {}
        self._refused: dict[_Key, None] = {}  # edges with errors in their latest trial
        self._live_hosts: list[str] = []
        self._live_hosts_at = float("-inf")
        self._threads = Threads(_MAX_TRIALS * _MAX_NAMES, "trials")
        self._task = PeriodicTask("trials", self._start_due, _IDLE, failures=Unavailable)

    def apply(self, item_keys: Iterable[ItemKey]) -> None:
        """Schedule trials of changed edges.

        If any record of an account has changed, also repeat the trials of the account's edges that have errors.
        """
        changed, owners = list[_Key](), set[str]()
        for item_key in filter(rejections.is_relevant, item_keys):
            account, _, path = item_key.scope.partition("#")
            owners.add(account)
            if kinds.find_by_path(path) in kinds.EDGES:
                changed.append((account, item_key.id))
        self.retry([*changed, *(key for key in self._refused if key[0] in owners)])

    def retry(self, edges: Iterable[tuple[str, str]]) -> None:
        """Schedule trials of edges, given as account and id."""
        for key in edges:
            self._schedule(key, 0, 0)

    async def serve(self) -> None:
        """Run the trials that are due, until cancelled."""
        try:
            await self._task.run()
        finally:
            for task in self._tasks.values():
                task.cancel()
            self._threads.shutdown()

    def _schedule(self, key: _Key, number: int, pause: float) -> None:
        """Schedule the trial of an edge in `pause` seconds.

        `number` is how many trials of the edge had no result since its latest change.
        """
        self._due[key] = time.monotonic() + pause, number
        self._task.wake_within(max(_POLL, pause))

    async def _start_due(self) -> float:
        """Start the trials that are due, within the limits. Return the pause until the next call."""
        now, of_account = time.monotonic(), Counter(account for account, _ in self._tasks)
        for key, (at, number) in list(self._due.items()):
            if of_account.total() >= _MAX_TRIALS:
                break
            if at > now or key in self._tasks or of_account[key[0]] >= _MAX_TRIALS_OF_ACCOUNT:
                continue
            is_responsible = await self._is_responsible(key[1])
            self._due.pop(key, None)
            if is_responsible:
                of_account[key[0]] += 1
                self._tasks[key] = asyncio.create_task(self._run(key, number))
            else:
                self._refused.pop(key, None)
        next_at = min((at for at, _ in self._due.values()), default=float("inf"))
        return max(_POLL, min(_IDLE, next_at - time.monotonic()))

    async def _is_responsible(self, edge: str) -> bool:
        """Return whether this host does the trials of an edge. Raises Unavailable."""
        if time.monotonic() > self._live_hosts_at + _HOSTS_PERIOD:
            self._live_hosts = await self._threads.call(edge_status.list_hosts)
            self._live_hosts_at = time.monotonic()
        return choose_host({*self._live_hosts, self._host.id}, edge) == self._host.id

    async def _run(self, key: _Key, number: int) -> None:
        try:
            is_done = await self._try(*key)
        except Exception as error:
            is_done = False
            log.event("trial_failed", edge=key[1], error=type(error).__name__)
        finally:
            self._tasks.pop(key, None)
        if key in self._due:
            return
        if not is_done and number + 1 < _TRIES:
            self._schedule(key, number + 1, _PAUSE)
        elif key in self._refused:
            self._schedule(key, 0, _REPEAT)

    async def _try(self, account: str, edge: str) -> bool:
        """Connect to names of an edge, and store Envoy's errors. Return False if there is no result yet."""
        host = self._host
        self._refused.pop((account, edge), None)
        plan = await self._plan(account, edge)
        if plan is None:
            await self._threads.call(edge_status.remove_trial, account, edge)
            return True
        connecting = (self._threads.call(_connects, name, host.settings) for name in choose_names(plan))
        accepted = await asyncio.gather(*connecting)
        await _wait_until(lambda: host.is_settled(plan))
        errors = host.errors_of(plan)
        if errors:
            self._refused[account, edge] = None
        elif not all(accepted):
            return False
        trial = Report(plan.edge.revision, clock.rfc3339(clock.now()), host.id, errors)
        await self._threads.call(edge_status.write_trial, account, edge, trial)
        return True

    async def _plan(self, account: str, edge: str) -> Plan | None:
        """Return the plan of an edge, or None if the edge is deleted.

        Read the edge's records if none of its names is loaded.
        """
        host = self._host
        await _wait_until(lambda: not host.is_changing(account))
        if plan := host.find_plan(account, edge):
            return plan
        records = await self._threads.call(host.reader.read_items, account, [edge], None)
        return names.plan_edge(edge, records, datetime.now(UTC), host.service())


def choose_host(hosts: Iterable[str], edge: str) -> str:
    """Return the host that does the trials of an edge, by rendezvous hashing."""
    return max(hosts, key=lambda host: hashlib.blake2b(f"{host} {edge}".encode()).digest())


def choose_names(plan: Plan) -> list[str]:
    """Return names of an edge to which this host can connect, at most `_MAX_NAMES`.

    Return no names if IP policies of the edge may refuse this host.
    """
    if plan.is_stream and plan.refusals:
        return []
    connectable = [host.name for host in plan.hosts if host.answers and host.certificate and not port_of(host.name)]
    return [name.replace(WILDCARD, f"{_LABEL}.", 1) for name in connectable[:_MAX_NAMES]]


def _connects(name: str, settings: Settings) -> bool:
    """Return whether this host accepts a TLS connection to a name. Blocks for some seconds at most."""
    address = _LOOPBACK.get(settings.host, settings.host)
    source = (proxies.choose_trial_source(settings), 0) if settings.proxy_protocol_from else None
    with suppress(OSError), socket.create_connection((address, settings.edge_port), _TIMEOUT, source) as raw:
        if source:
            raw.sendall(proxy_protocol.Header().encoded())
        with _tls_settings().wrap_socket(raw, server_hostname=name):
            return True
    return False


@cache
def _tls_settings() -> ssl.SSLContext:
    """Return TLS settings that accept any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def _wait_until(holds: Callable[[], bool]) -> None:
    """Wait until a condition is true, but at most `_TIMEOUT` seconds."""
    end = time.monotonic() + _TIMEOUT
    while not holds() and time.monotonic() < end:
        await asyncio.sleep(0.05)
