"""The lease of a gateway in the store.

While the lease lasts, the gateway's tunnels are online. When the lease ends, all its tunnels end.
"""

import asyncio
import time
from collections.abc import Callable

from chalicelib.model.tunnels import gateways
from chalicelib.model.tunnels.gateways import Gateway
from edge.process import log
from edge.process.tasks import PeriodicTask
from edge.store.records import Unavailable
from edge.store.threads import Threads

_SKIPPED = 1.0  # seconds until the next attempt after a skipped renewal of the lease


class LeaseLost(Exception):
    """The lease of the gateway is over. The gateway needs a new id before it can open tunnels again."""


class GatewayLease:
    """The lease of a gateway. It lasts for `seconds` after each renewal.

    `on_loss` is called once, when the lease expires or the store rejects a renewal. Only the change log reports that a
    tunnel has lost its rights or its name. Therefore, a gateway that cannot read the log does not renew its lease.
    """

    def __init__(self, seconds: int, on_loss: Callable[[], None]) -> None:
        self._seconds, self._on_loss = seconds, on_loss
        self._id = ""
        # monotonic times
        self._ends_at = float("inf")
        self._renewed_at = self._log_read_at = 0.0
        self._is_lost = asyncio.Event()
        self._thread = Threads(1, "lease")  # a separate thread: a renewal must never wait for other calls
        self.renewal_seconds = 0.0

    @property
    def seconds_left(self) -> float:
        return 0.0 if self._is_lost.is_set() else max(0.0, self._ends_at - time.monotonic())

    async def begin(self, gateway: Gateway) -> None:
        """Register the gateway in the store. The lease begins. Raises Unavailable."""
        start = time.monotonic()
        await self._thread.call(gateways.announce, gateway, lease=self._seconds)
        self._id, self._renewed_at, self._ends_at = gateway.id, start, start + self._seconds

    def task(self) -> PeriodicTask:
        """Return the periodic task that renews the lease, three times within its duration."""
        return PeriodicTask("lease_renewal", self.renew, self._seconds / 3, failures=Unavailable)

    async def renew(self) -> float | None:
        """Renew the lease if the change log was read since the previous renewal.

        Return the seconds until the next call, or None for the period of the task.

        Raises Unavailable.
        """
        start = time.monotonic()
        if (wait := self._renewed_at + self._seconds / 4 - start) > 0:  # the latest renewal is too recent
            return wait
        if self._log_read_at <= self._renewed_at:
            log.event("renewal_skipped")
            return _SKIPPED
        try:
            is_live = await self._thread.call(gateways.renew, self._id, lease=self._seconds)
        except Unavailable:
            log.event("store_away")
            raise
        self.renewal_seconds = time.monotonic() - start
        if is_live and not self._is_lost.is_set():
            self._renewed_at, self._ends_at = start, start + self._seconds
        else:
            self._lose("rejected")
        return None

    def on_log_read(self, started: float) -> None:
        """Record that the change log was read and applied. `started` is the monotonic time at which the read began."""
        self._log_read_at = started

    def check(self) -> None:
        """End the lease if it has expired, for example while the process was stopped."""
        if self._ends_at <= time.monotonic():
            self._lose("over")

    async def wait_for_loss(self) -> None:
        """Wait for the end of the lease, then raise LeaseLost."""
        while not self._is_lost.is_set():
            try:
                async with asyncio.timeout_at(self._ends_at):
                    await self._is_lost.wait()
            except TimeoutError:
                self.check()
        raise LeaseLost

    def _lose(self, reason: str) -> None:
        if not self._is_lost.is_set():
            self._is_lost.set()
            log.event("lease_lost", gateway=self._id, reason=reason)
            self._on_loss()
