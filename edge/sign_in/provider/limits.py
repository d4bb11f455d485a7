"""Limits on concurrent exchanges with providers. A slow provider or visitor must not stop other sign-ins. Pure."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

_OF_ACCOUNT = 4  # one account may have a quarter of all exchanges
_OF_ADDRESS = 8  # concurrent exchanges of one visitor address


class TooManyExchanges(Exception):
    """A limit on concurrent exchanges with providers is reached."""


class ExchangeLimits:
    """Counts the running exchanges with providers. The limit is `most`, and lower for an account or a visitor."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._accounts: Counter[str] = Counter()
        self._addresses: Counter[str] = Counter()

    @contextmanager
    def one(self, account: str, address: str = "") -> Iterator[None]:
        """Count an exchange while it runs. For rechecks of sessions, `address` is "". Raises TooManyExchanges."""
        total = self._accounts.total()
        if total >= self._most or self._accounts[account] >= max(1, self._most // _OF_ACCOUNT):
            raise TooManyExchanges
        if address and self._addresses[address] >= _OF_ADDRESS:
            raise TooManyExchanges
        self._accounts[account] += 1
        self._addresses[address] += 1
        try:
            yield
        finally:
            for counter, key in ((self._accounts, account), (self._addresses, address)):
                counter[key] -= 1
                if not counter[key]:
                    del counter[key]
