"""Checks whether clients still have the rights to their online tunnels, after changes and periodically.

If the store fails, tunnels do not stay online forever: a gateway that cannot read the change log does not renew its
lease, and a tunnel that cannot be checked for the duration of a lease is closed.
"""

import functools
import random
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence

from chalicelib import ids
from chalicelib.model.tunnels import online_tunnels
from chalicelib.model.tunnels.tunnels import read_refusal
from edge.process.settings import Limits
from edge.process.tasks import PeriodicTask
from edge.ssh.auth.rights import concerns
from edge.ssh.lease import GatewayLease
from edge.ssh.online_tunnel import OnlineTunnel
from edge.ssh.tunnels import Tunnels
from edge.store import threads
from edge.store.changes import Follower
from edge.store.records import Unavailable
from edge.store.table import Store
from edge.store.threads import Threads

_BATCH = 100  # maximum tunnels in one check, which reads each record only once for all its tunnels
_POLL = 0.5  # seconds between two reads of the change log
_TICK = 1.0  # seconds between two calls of `sweep`
_REVOKED = "its credential or right to the name was revoked"
_UNREADABLE = "its rights could not be checked"
_MISSING = "another connection has taken its name, or the operator has ended it"


class RightsChecks:
    """Checks the rights to the online tunnels of this gateway, and closes tunnels without rights."""

    def __init__(self, tunnels: Tunnels, store: Store, limits: Limits, lease: GatewayLease) -> None:
        self._tunnels, self._store, self._limits, self._lease = tunnels, store, limits, lease
        self._changed: set[str] = set()  # ids of changed records. `follow` reads the `refusal` of changed tunnels again
        self._unchecked: dict[str, float] = {}  # for each tunnel to check, the monotonic time since it must be checked
        self._due_at: dict[str, float] = {}  # for each account, the monotonic time of the next check by `sweep`
        self._thread = Threads(1, "rights")

    def tasks(self, gateway: str, follower: Follower) -> tuple[PeriodicTask, ...]:
        """Return the periodic tasks that call `follow`, `sweep`, and `check_list`."""
        list_period = self._limits.lease
        return (
            PeriodicTask("changes", functools.partial(self.follow, follower), _POLL, failures=Unavailable),
            PeriodicTask("rights", self.sweep, _TICK),
            PeriodicTask("own_list", functools.partial(self.check_list, gateway), list_period, failures=Unavailable),
        )

    async def check_list(self, gateway: str) -> None:
        """Compare the online tunnels with the store's list of this gateway's tunnels. Raises Unavailable.

        Close tunnels that are not listed. End the records of listed tunnels that are not online. Those records remain
        if the store did not answer when a tunnel was opened or closed.
        """
        online = self._tunnels.online
        listed = {record.id: record for record in await threads.call(online_tunnels.read_tunnels_of_gateway, gateway)}
        for tunnel in [tunnel for tunnel in online if tunnel.id not in listed]:
            await self._tunnels.close(tunnel, _MISSING)
        for record in listed.values():
            age = time.time() - ids.created_at(record.id).timestamp()
            if age > self._limits.lease and not self._tunnels.has(record.id):  # younger tunnels may not be online yet
                await self._tunnels.close_leftover(record)

    async def sweep(self) -> None:
        """Check the tunnels of accounts that were not checked for RIGHTS_SWEEP seconds."""
        now, by_account = time.monotonic(), _group(self._tunnels.online)
        # the first check of each account has a random time, so that not all accounts are checked at once
        first = {account: now + random.uniform(0, self._limits.rights_sweep) for account in by_account}
        self._due_at = {account: self._due_at.get(account, at) for account, at in first.items()}
        for account in [account for account, at in self._due_at.items() if at <= now]:
            self._due_at[account] = now + self._limits.rights_sweep
            try:
                await self._check(by_account[account])
            except Unavailable:
                self._mark_unchecked(by_account[account])

    async def follow(self, follower: Follower) -> None:
        """Read the change log, and check the tunnels that can be affected.

        So a revocation takes effect within a second. If a check fails, the next call repeats it. Raises Unavailable.
        """
        start = time.monotonic()
        changes = await threads.call(follower.read, time.time())
        keys = {key for change in changes for key in change.item_keys}
        self._mark_unchecked(
            tunnel for tunnel in self._tunnels.online if any(concerns(key, tunnel.record) for key in keys)
        )
        self._changed |= {key.id for key in keys}
        self._lease.on_log_read(start)
        await self._check_concerned()
        await self._read_refusals(filter(None, map(self._tunnels.find, self._changed)))
        self._changed.clear()

    async def _check_concerned(self) -> None:
        """Check all tunnels in `_unchecked`, one account after another.

        If the check of one account fails, the other accounts are still checked. Then close the tunnels that have been
        unchecked for the duration of a lease, and raise Unavailable.
        """
        failure, unchecked = None, [tunnel for tunnel in self._tunnels.online if tunnel.id in self._unchecked]
        for tunnels in _group(unchecked).values():
            try:
                await self._check(tunnels)
                await self._close_missing(tunnels)
            except Unavailable as unavailable:
                failure = unavailable
            else:
                self._unchecked = {
                    id: at for id, at in self._unchecked.items() if id not in {tunnel.id for tunnel in tunnels}
                }
        if failure is None:
            self._unchecked.clear()
            return
        for tunnel in [tunnel for tunnel in unchecked if self._is_overdue(tunnel.id)]:
            await self._tunnels.close(tunnel, _UNREADABLE)
        raise failure

    def _is_overdue(self, id: str) -> bool:
        return self._unchecked.get(id, float("inf")) + self._limits.lease < time.monotonic()

    def _mark_unchecked(self, tunnels: Iterable[OnlineTunnel]) -> None:
        for tunnel in tunnels:
            self._unchecked.setdefault(tunnel.id, time.monotonic())

    async def _check(self, tunnels: Sequence[OnlineTunnel]) -> None:
        """Close the tunnels to which their clients have lost the right."""
        for start in range(0, len(tunnels), _BATCH):
            batch = tunnels[start : start + _BATCH]
            rights = [(tunnel.record, tunnel.opening) for tunnel in batch]
            unpermitted = await self._thread.call(self._store.find_unpermitted, rights)
            for tunnel in [tunnel for tunnel in batch if tunnel.id in unpermitted]:
                await self._tunnels.close(tunnel, _REVOKED)

    async def _close_missing(self, tunnels: Sequence[OnlineTunnel]) -> None:
        """Close the tunnels without a record in the store. For example, another connection has taken the name."""
        records = [tunnel.record for tunnel in tunnels]
        missing = await self._thread.call(online_tunnels.find_missing, records)
        for tunnel in [tunnel for tunnel in tunnels if tunnel.id in missing]:
            await self._tunnels.close(tunnel, _MISSING)

    async def _read_refusals(self, online: Iterable[OnlineTunnel]) -> None:
        """Read whether edge hosts serve the ports of TCP tunnels.

        If that has changed for a tunnel, show the change to the tunnel's client.
        """
        for tunnel in [tunnel for tunnel in online if tunnel.record.proto == "tcp"]:
            reason = await threads.call(read_refusal, tunnel.record)
            if reason != tunnel.refusal and self._tunnels.find(tunnel.id):
                tunnel.refusal = reason
                tunnel.session.on_port_refusal(tunnel)


def _group(tunnels: Iterable[OnlineTunnel]) -> dict[str, list[OnlineTunnel]]:
    """Return the tunnels of each account, by the id of the account."""
    by_account = defaultdict[str, list[OnlineTunnel]](list)
    for tunnel in tunnels:
        by_account[tunnel.record.account].append(tunnel)
    return by_account
