"""Trials: after a change of an edge, one live host connects to some of its names and stores the result."""

import asyncio
import hashlib
import ssl
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime

from chalicelib import clock
from chalicelib.domains import WILDCARD
from chalicelib.model.base import kinds
from chalicelib.model.edges.edge_status import Trial
from chalicelib.model.edges.served import port_of
from chalicelib.model.serving.account_view import Service
from chalicelib.model.serving.edge_plans import Plan
from chalicelib.storage.records.change_log import Place
from edge.control.special_account import ItemReader
from edge.control.statuses import Statuses
from edge.plan import names
from edge.process import log
from edge.process.settings import Settings
from edge.store.records import Store, Unavailable

_POLL, _PAUSE = 0.2, 2.0  # seconds between checks, and until a trial without a result is repeated
_TRIES = 5
_TIMEOUT = 5.0  # seconds for a connection, and until the new revision is loaded
_MAX_NAMES, _AT_ONCE = 4, 8  # names of an edge, and concurrent trials
_HOSTS_PERIOD = 5.0  # seconds between two reads of the live hosts
_LABEL = "edge-trial"  # below a wildcard


class Trials:
    """The trials of one edge host. `is_busy` returns whether names are being loaded."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        host: str,
        reader: ItemReader,
        service: Callable[[], Service],
        statuses: Statuses,
        is_busy: Callable[[], bool],
    ) -> None:
        self._settings, self._store, self._host, self._reader = settings, store, host, reader
        self._service, self._statuses, self._is_busy = service, statuses, is_busy
        self._due: dict[tuple[str, str], tuple[float, int]] = {}  # time and number of the next try by account and edge
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._hosts: list[str] = []
        self._hosts_at = 0.0

    def apply(self, places: Iterable[Place]) -> None:
        """Try the edges that changed."""
        for place in places:
            account, _, path = place.scope.partition("#")
            if kinds.at(path) in kinds.EDGES:
                self._due[account, place.id] = time.monotonic(), 0

    async def serve(self) -> None:
        """Try changed edges, until cancelled."""
        try:
            while True:
                await asyncio.sleep(_POLL)
                with suppress(Unavailable):
                    await self._start_due()
        finally:
            for task in self._tasks.values():
                task.cancel()

    async def _start_due(self) -> None:
        now = time.monotonic()
        for key, (at, number) in list(self._due.items()):
            if at > now or key in self._tasks or len(self._tasks) >= _AT_ONCE:
                continue
            del self._due[key]
            if await self._is_responsible(key[1]):
                self._tasks[key] = asyncio.create_task(self._run(key, number))

    async def _is_responsible(self, edge: str) -> bool:
        """Return whether this host is the one that tries an edge. Raises Unavailable."""
        if time.monotonic() > self._hosts_at + _HOSTS_PERIOD:
            self._hosts = await asyncio.to_thread(self._store.list_live_hosts)
            self._hosts_at = time.monotonic()
        every = {*self._hosts, self._host}
        return max(every, key=lambda host: hashlib.blake2b(f"{host} {edge}".encode()).digest()) == self._host

    async def _run(self, key: tuple[str, str], number: int) -> None:
        try:
            is_done = await self._try(*key)
        except Exception as error:
            is_done = False
            log.event("trial_failed", edge=key[1], error=type(error).__name__)
        finally:
            self._tasks.pop(key, None)
        if not is_done and number + 1 < _TRIES:
            self._due.setdefault(key, (time.monotonic() + _PAUSE, number + 1))

    async def _try(self, account: str, edge: str) -> bool:
        """Try an edge and store the result. Return False if there is none."""
        records = await asyncio.to_thread(self._reader.read_items, account, [edge], None)
        plan = names.plan_edge(edge, records, datetime.now(UTC), self._service())
        if plan is None:
            await asyncio.to_thread(self._store.remove_trial, account, edge)
            return True
        accepted = await asyncio.gather(*(self._connects(it) for it in _choose_names(plan)))
        await self._wait_until_loaded()
        errors = self._statuses.errors_of(edge, plan.edge.revision)
        if not (all(accepted) or errors):
            return False
        trial = Trial(plan.edge.revision, clock.rfc3339(clock.now()), self._host, errors)
        await asyncio.to_thread(self._store.write_trial, account, edge, trial)
        return True

    async def _connects(self, name: str) -> bool:
        """Return whether this host accepts a TLS connection to a name."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_TIMEOUT):
                _, writer = await asyncio.open_connection("127.0.0.1", self._settings.edge_port)
                try:
                    if self._settings.proxy_protocol_from:
                        writer.write(b"PROXY TCP4 127.0.0.1 127.0.0.1 1 443\r\n")
                    await writer.start_tls(context, server_hostname=name)
                    return True
                finally:
                    writer.close()
        return False

    async def _wait_until_loaded(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_TIMEOUT):
                while self._is_busy():
                    await asyncio.sleep(0.05)


def _choose_names(plan: Plan) -> list[str]:
    """Return some names of an edge whose handshakes end here."""
    ending = [it.name for it in plan.hosts if it.answers and it.certificate and not port_of(it.name)]
    return [it.replace(WILDCARD, f"{_LABEL}.", 1) for it in ending[:_MAX_NAMES]]
