"""Limits on the orders in a period: of a domain, of an account, and of all accounts together. This file does no I/O.

Times are Unix seconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from chalicelib.model.tls import order_times

_HOUR, _DAY = 3600, 86400


@dataclass(frozen=True)
class Bound:
    """A limit on orders: at most `count` orders in any period of `seconds`.

    `limit` tells the owner of a domain that the limit is reached.
    """

    count: int
    seconds: int
    limit: str

    def admits_at(self, times: Sequence[int], now: int) -> int:
        """Return when the next order is admitted after earlier orders at `times`. Return 0 if it is admitted now."""
        recent = sorted(time for time in times if time > now - self.seconds)
        return recent[-self.count] + self.seconds if len(recent) >= self.count else 0


@dataclass(frozen=True)
class OrderBounds:
    """All limits on orders. Tests use smaller numbers."""

    failed: Bound = Bound(5, _DAY, "this domain has had five failed orders in a day")
    issued: Bound = Bound(4, 7 * _DAY, "this domain has got four certificates in a week")
    account: Bound = Bound(20, _HOUR, "the account has had 20 orders in an hour")
    service: Bound = Bound(
        order_times.ALL.limit, order_times.ALL.seconds, "the service has reached its limit of orders"
    )
    registered: Bound = Bound(40, 7 * _DAY, "the names below this registered domain have had 40 orders in a week")


@dataclass(frozen=True)
class History:
    """The times of earlier orders that count towards each bound, in Unix seconds."""

    failed: Sequence[int] = ()
    issued: Sequence[int] = ()
    account: Sequence[int] = ()
    service: Sequence[int] = ()
    registered: Sequence[int] = ()


@dataclass(frozen=True)
class Limit:
    """A reached bound: its `limit` text, and the Unix second from which it admits the next order."""

    sentence: str
    not_before: int


def find_limit(bounds: OrderBounds, history: History, now: int, *, replaces: bool) -> Limit | None:
    """Return the reached bound that delays the order longest. Return None if the order is admitted now.

    An order that replaces a certificate counts only towards bounds that the CA does not have.
    """
    checks = [(bounds.failed, history.failed), (bounds.account, history.account)]
    if not replaces:
        checks += [(bounds.issued, history.issued), (bounds.service, history.service)]
        checks.append((bounds.registered, history.registered))
    reached = [(bound.admits_at(times, now), bound.limit) for bound, times in checks]
    not_before, sentence = max(reached)
    return Limit(sentence, not_before) if not_before else None
