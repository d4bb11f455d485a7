"""The leases of this gateway's tunnels: renewed while the tunnels are permitted, and checked after each change.

Fail closed: a tunnel is closed when its lease could not be renewed in time, for whatever reason.
"""

import asyncio
import functools
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from edge.process import log
from edge.process.settings import Limits
from edge.process.tasks import PeriodicTask
from edge.ssh.auth.rights import concerns
from edge.ssh.online_tunnel import OnlineTunnel
from edge.ssh.tunnels import Tunnels
from edge.store.changes import Follower
from edge.store.records import Grant, Opening, Store, Unavailable

_BATCH = 50  # tunnels in one renewal: if the store fails for one batch, the others are still renewed
_POLL = 0.5  # seconds between two readings of the change log
_CHECK_PERIOD = 1.0  # seconds between two searches for ended leases


class Leases:
    """The leases of the online tunnels."""

    def __init__(self, tunnels: Tunnels, store: Store, limits: Limits) -> None:
        self._tunnels, self._store, self._limits = tunnels, store, limits
        self._changed: set[str] = set()  # ids of tunnels with an unread refusal
        self._thread = ThreadPoolExecutor(1)  # only for renewals, so that they never wait for other calls

    def tasks(self, follower: Follower) -> tuple[PeriodicTask, ...]:
        """Return the work on leases. Each is renewed three times within its time."""
        return (
            PeriodicTask("lease_renewal", self.renew, self._limits.lease / 3, failures=Unavailable),
            PeriodicTask("changes", functools.partial(self._follow, follower), _POLL, failures=Unavailable),
            PeriodicTask("lease_ends", self._drop_lapsed, _CHECK_PERIOD),
        )

    async def renew(self) -> None:
        """Renew the leases in batches. Raises Unavailable, after all batches, if the store failed for one.

        Close the tunnels that lost their lease or are no longer permitted.
        """
        failure, online = None, self._tunnels.online
        for start in range(0, len(online), _BATCH):
            try:
                await self._renew_batch(online[start : start + _BATCH])
            except Unavailable as unavailable:
                log.event("store_away")
                failure = unavailable
        if failure:
            raise failure

    async def _follow(self, follower: Follower) -> None:
        """Renew the tunnels that a change concerns at once, so that a revocation acts within a second.

        If the store does not answer, the next renewal finds what has ended.
        """
        changes = await asyncio.to_thread(follower.read, time.time())
        keys = {key for change in changes for key in change.places}
        self._changed |= {key.id for key in keys}
        concerned = [it for it in self._tunnels.online if any(concerns(key, it.record) for key in keys)]
        for start in range(0, len(concerned), _BATCH):
            await self._renew_batch(concerned[start : start + _BATCH])
        await self._read_refusals(filter(None, map(self._tunnels.find, self._changed)))
        self._changed.clear()

    async def _drop_lapsed(self) -> None:
        """Drop tunnels with an ended lease, even while the store does not answer."""
        self._tunnels.drop_lapsed(time.monotonic())

    async def _renew_batch(self, tunnels: Sequence[OnlineTunnel]) -> None:
        start = time.monotonic()
        lost = await asyncio.get_running_loop().run_in_executor(self._thread, self._renew, tunnels)
        for tunnel in tunnels:
            if tunnel.id in lost:
                await self._tunnels.close(tunnel, "its credential or right to the name was revoked, or its lease lost")
            else:
                tunnel.lease_end = start + self._limits.lease

    def _renew(self, tunnels: Sequence[OnlineTunnel]) -> frozenset[str]:
        """Renew the permitted tunnels. Return the ids of those that are not permitted or lost their lease."""
        refresh = functools.cache(self._store.refresh_grant)
        permitted = [tunnel for tunnel in tunnels if _permits(refresh(tunnel.opening.grant), tunnel.opening)]
        revoked = {tunnel.id for tunnel in tunnels} - {tunnel.id for tunnel in permitted}
        return self._store.renew([tunnel.record for tunnel in permitted], lease=self._limits.lease) | revoked

    async def _read_refusals(self, tunnels: Iterable[OnlineTunnel]) -> None:
        """Read whether edge hosts serve the ports of tunnels. Report changes to the clients."""
        for tunnel in [it for it in tunnels if it.record.proto == "tcp"]:
            reason = await asyncio.to_thread(self._store.read_refusal, tunnel.record)
            if reason != tunnel.refusal and self._tunnels.find(tunnel.id):
                tunnel.refusal = reason
                tunnel.session.on_port_refusal(tunnel)


def _permits(grant: Grant | None, opening: Opening) -> bool:
    return grant is not None and all(map(grant.permits, opening.targets))
