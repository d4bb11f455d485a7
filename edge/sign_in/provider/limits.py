"""Limits on concurrent exchanges with providers. This file does no I/O.

An exchange is all requests to a provider for one sign-in or one recheck of a session. With the limits, a slow provider
or a single visitor cannot stop the sign-ins of others.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from edge import networks

_OF_ACCOUNT = 4  # one account may have 1/4 of the exchanges that are allowed in total
_OF_VISITOR = 8  # concurrent exchanges of one visitor: an IPv4 address or an IPv6 /64


class TooManyExchanges(Exception):
    """A limit on concurrent exchanges with providers is reached."""


class ExchangeLimits:
    """Counts the running exchanges with providers, and limits their number.

    In total, `limit` exchanges are allowed. For one account, and for one visitor, fewer are allowed.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._accounts: Counter[str] = Counter()
        self._visitors: Counter[str] = Counter()

    @contextmanager
    def track(self, account: str, address: str = "") -> Iterator[None]:
        """Count an exchange as running during the `with` block. Raises TooManyExchanges.

        `address` is the visitor's address, or "" if the exchange is a recheck of a session.
        """
        visitor, total = networks.get_source(address) if address else "", self._accounts.total()
        if total >= self._limit or self._accounts[account] >= max(1, self._limit // _OF_ACCOUNT):
            raise TooManyExchanges
        if address and self._visitors[visitor] >= _OF_VISITOR:
            raise TooManyExchanges
        self._accounts[account] += 1
        self._visitors[visitor] += 1
        try:
            yield
        finally:
            for counter, key in ((self._accounts, account), (self._visitors, visitor)):
                counter[key] -= 1
                if not counter[key]:
                    del counter[key]
