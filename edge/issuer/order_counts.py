"""Counts orders in the table, and enforces the limits on orders. Blocks."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from chalicelib import domains
from chalicelib.model.tls import order_times
from chalicelib.model.tls.order_times import TimeSet
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import TransactionFailed, Write
from edge.issuer.attempts import AttemptFailed
from edge.issuer.rules import order_bounds, outcomes
from edge.issuer.rules.order_bounds import Bound, History, Limit, OrderBounds

# The sets to which the time of an order is added. An order that replaces a certificate is not added to `_MIRRORED`,
# because the CA does not count such an order either.
_ORDERED, _MIRRORED = ("account",), ("service", "registered")


@dataclass(frozen=True)
class OrderCounts:
    """The counts of orders that all issuers share. All methods raise aws.Unavailable."""

    bounds: OrderBounds = field(default_factory=OrderBounds)

    def find_limit(self, account: str, domain: str, now: int, *, replaces: bool) -> Limit | None:
        """Return the limit that forbids an order now, or None."""
        history = History(**order_times.read(self._sets(account, domain), now))
        return order_bounds.find_limit(self.bounds, history, now, replaces=replaces)

    def count(self, account: str, domain: str, now: int, *, replaces: bool) -> None:
        """Count an order before it is sent. Raises AttemptFailed if a limit forbids the order.

        An order that replaces a certificate counts only towards limits that the CA does not have.
        """
        sets = self._sets(account, domain)
        names = _ORDERED if replaces else (*_ORDERED, *_MIRRORED)
        try:
            dynamodb.transact([order_times.add(sets[name], now) for name in names])
        except TransactionFailed:  # a set of times is full, so a limit is reached
            limit = self.find_limit(account, domain, now, replaces=replaces)
            failure = outcomes.rate_limited(limit.sentence, limit.not_before) if limit else outcomes.internal()
            raise AttemptFailed(
                failure, "a limit on certificate orders is reached: the order is repeated later"
            ) from None

    def count_failed(self, domain: str, now: int) -> None:
        """Count an order that has failed, for the limit on a domain's failed orders."""
        dynamodb.do(order_times.add(_set(f"failed/{domain}", self.bounds.failed), now))

    def count_issued(self, domain: str, now: int) -> Write:
        """Return a write for a transaction that counts an issued certificate for its domain."""
        return order_times.add(_set(f"issued/{domain}", self.bounds.issued), now)

    def list_all(self, now: int) -> list[int]:
        """Return the times of earlier orders that count towards the limit for all accounts together."""
        service_wide = _set(order_times.ALL.id, self.bounds.service)
        return order_times.read({"service": service_wide}, now)["service"]

    def _sets(self, account: str, domain: str) -> Mapping[str, TimeSet]:
        bounds = self.bounds
        return {
            "failed": _set(f"failed/{domain}", bounds.failed),
            "issued": _set(f"issued/{domain}", bounds.issued),
            "account": _build_time_set(f"account/{account}", bounds.account),
            "service": _build_time_set(order_times.ALL.id, bounds.service),
            "registered": _build_time_set(f"registered/{domains.find_registrable(domain)}", bounds.registered),
        }


def _set(id: str, bound: Bound) -> TimeSet:
    return TimeSet(id, bound.seconds)


def _build_time_set(id: str, bound: Bound) -> TimeSet:
    return TimeSet(id, bound.seconds, bound.count)
