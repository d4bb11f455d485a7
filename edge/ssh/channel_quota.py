"""Counts the open SSH channels of tunnels and accounts, and limits their numbers.

Each connection of a visitor to a tunnel has a channel. If a limit is reached, a visitor with many connections loses one
to a visitor with fewer: the channel is evicted.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping

from edge.process.settings import Limits
from edge.ssh.data.visitors import choose_eviction
from edge.ssh.online_tunnel import OnlineTunnel, TunnelConnection


class ChannelQuota:
    """Counts the open channels of online tunnels. `refused` and `evicted` are totals since the gateway's start."""

    def __init__(self, online: Mapping[str, OnlineTunnel], limits: Limits) -> None:
        self._online, self._limits = online, limits
        self._by_account: Counter[str] = Counter()
        # by account: the number of evicted channels that SSH clients have not closed yet
        self._closing: Counter[str] = Counter()
        self.refusals = self.evictions = 0

    def take(self, tunnel: OnlineTunnel) -> None:
        """Count a new channel of a tunnel and of its account."""
        tunnel.open_channels += 1
        self._by_account[tunnel.record.account] += 1

    def release(self, tunnel: OnlineTunnel) -> None:
        """Stop counting a channel of a tunnel and of its account."""
        tunnel.open_channels -= 1
        _decrement(self._by_account, tunnel.record.account)

    def on_evicted_closed(self, account: str) -> None:
        """Stop counting an evicted channel, because the SSH client has closed it."""
        _decrement(self._closing, account)

    def has_room(self, tunnel: OnlineTunnel) -> bool:
        """Return whether a tunnel and its account can have one more channel."""
        of_account, limits = self._by_account[tunnel.record.account], self._limits
        return of_account < limits.max_channels_per_account and tunnel.open_channels < limits.max_channels_per_tunnel

    def make_room(self, tunnel: OnlineTunnel, visitor: str) -> bool:
        """If a limit is reached, evict a connection of the visitor with the most connections.

        Return False if there is still no room for a new channel.
        """
        account, limits = tunnel.record.account, self._limits
        if tunnel.open_channels >= limits.max_channels_per_tunnel:
            return self._evict(tunnel.connections, account, visitor)
        if self._by_account[account] >= limits.max_channels_per_account:
            of_account = [tunnel for tunnel in self._online.values() if tunnel.record.account == account]
            return self._evict(
                [connection for tunnel in of_account for connection in tunnel.connections], account, visitor
            )
        return True

    def _evict(self, connections: Iterable[TunnelConnection], account: str, newcomer: str) -> bool:
        candidates = [connection for connection in connections if connection.has_channel]
        visitor = choose_eviction(Counter(connection.visitor for connection in candidates), newcomer)
        if visitor is None or self._closing[account] >= self._limits.max_channels_per_account:
            self.refusals += 1
            return False
        self.evictions += 1
        self._closing[account] += 1
        random.choice([connection for connection in candidates if connection.visitor == visitor]).evict()
        return True


def _decrement(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
