"""Sweeps: end the tunnels of dead gateways in the store.

A gateway that dies writes nothing, and its lease ends. Then one edge host marks the gateway's record as ended, and one
edge host ends the gateway's tunnels.
"""

import asyncio
import time
from collections.abc import Sequence

from chalicelib.model.tunnels import gateways, online_tunnels
from chalicelib.model.tunnels.gateways import Gateway
from edge.process.tasks import PeriodicTask
from edge.store.records import Unavailable
from edge.store.threads import Threads

_PERIOD = 20.0  # seconds between two sweeps, unless a dead gateway is found earlier
_CLAIM = 60  # seconds for which a host claims a dead gateway. Meanwhile, other hosts do not end the gateway's tunnels
MAX_RATE = 100  # the most tunnels that are ended in a second
_MAX_AT_ONCE = 8  # the most tunnels that are ended at the same time


class GatewaySweeps:
    """Ends the tunnels of dead gateways, in the periodic `task`. `ended` counts the ended tunnels."""

    def __init__(self) -> None:
        self._dead: Sequence[Gateway] = ()
        self._threads = Threads(_MAX_AT_ONCE, "sweeps")
        self.ended = 0
        self.task = PeriodicTask("sweeps", self.sweep, _PERIOD, failures=Unavailable)

    def apply(self, listed: Sequence[Gateway]) -> None:
        """Remember the gateways that are marked as ended, or have a lapsed lease. Wake `sweep` if there are any."""
        self._dead = [gateway for gateway in listed if gateway.ended or gateway.has_lapsed(gateways.clock_skew())]
        if self._dead:
            self.task.wake()

    async def sweep(self) -> None:
        """Mark gateways with a lapsed lease as ended. End the tunnels of ended gateways. Raises Unavailable."""
        for gateway in self._dead:
            if gateway.ended:
                await self._end_tunnels(gateway)
            else:
                # The next read of gateways then passes the ended gateway to `apply`, which wakes `sweep`.
                await self._threads.call(gateways.fence, gateway.id)

    async def _end_tunnels(self, gateway: Gateway) -> None:
        """End all tunnels of an ended gateway, and then remove the gateway's record. Raises Unavailable."""
        if not await self._threads.call(gateways.claim_sweep, gateway.id, seconds=_CLAIM):
            return
        while tunnels := await self._threads.call(online_tunnels.read_tunnels_of_gateway, gateway.id):
            start, limit = time.monotonic(), asyncio.Semaphore(_MAX_AT_ONCE)

            async def end(number: int, start: float = start, limit: asyncio.Semaphore = limit) -> bool:
                async with limit:
                    await asyncio.sleep(start + number / MAX_RATE - time.monotonic())
                    return await self._threads.call(online_tunnels.end_of_gateway, tunnels[number], gateway)

            results = await asyncio.gather(*map(end, range(len(tunnels))), return_exceptions=True)
            self.ended += results.count(True)
            for error in (result for result in results if isinstance(result, BaseException)):
                raise error
            if True not in results:
                return  # another host is ending these tunnels, or their leases have not ended: a later sweep continues
        await self._threads.call(gateways.remove, gateway.id)
