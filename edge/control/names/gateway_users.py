"""Finds the accounts with tunnels at a gateway. Only names of these accounts depend on the gateway.

This file does no I/O.
"""

from collections import defaultdict
from collections.abc import Iterable

from chalicelib.model.serving.account_records import AccountRecords


class GatewayUsers:
    """For each gateway, the accounts that have loaded names with tunnels there."""

    def __init__(self) -> None:
        self._users: defaultdict[str, set[str]] = defaultdict(set)
        self._used: dict[str, frozenset[str]] = {}  # the gateways that each account uses

    def put(self, account: str, used: Iterable[str]) -> None:
        """Record the gateways that an account uses now, instead of its earlier ones."""
        before, new = self._used.pop(account, frozenset[str]()), frozenset(used)
        for gateway in before - new:
            self._users[gateway].discard(account)
            if not self._users[gateway]:
                del self._users[gateway]
        for gateway in new - before:
            self._users[gateway].add(account)
        if new:
            self._used[account] = new

    def remove(self, account: str) -> None:
        """Forget the gateways of an account."""
        self.put(account, ())

    def of(self, gateway: str) -> frozenset[str]:
        """Return the accounts that use a gateway."""
        return frozenset(self._users.get(gateway, ()))


def list_gateways(records: AccountRecords) -> frozenset[str]:
    """Return the ids of the gateways that have tunnels of an account. Some gateways may not be live."""
    return frozenset(tunnel.gateway for tunnel in records.tunnels.values()).union(records.gateways)
