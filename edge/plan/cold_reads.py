"""Decides for which cold names the store is read, and remembers which names are not served. This file does no I/O.

A cold name is a requested name that is not loaded. Times are seconds of a monotonic clock.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from chalicelib import domains

Exceeded = Literal["", "host", "domain"]  # the budget that a read would exceed: the host's, a domain's, or neither

_KEYS = 4  # parent domains per counted read: any parent domain can be a proved domain of the account
_SHARE = 10  # each domain gets a tenth of the budget
_PAGE_TIME, _NEGATIVE_TIME = 10.0, 5.0  # seconds for which control remembers 404 pages, and refused names
_MAX_LOADED_AGAIN = 4  # the most names below a base name that are loaded for open connections after a change


@dataclass
class _Bucket:
    tokens: float
    at: float

    def refill(self, rate: float, now: float) -> None:
        self.tokens, self.at = min(rate, self.tokens + (now - self.at) * rate), now


class ReadBudget:
    """Limits the reads of cold names per second: for all names together, and for each domain.

    A domain is a registrable domain, or a name directly below TUNNEL_DOMAIN (a base name), with the names below it.
    """

    def __init__(self, per_second: int, tunnel_domain: str, now: float) -> None:
        self._tunnel_domain = tunnel_domain
        self._rate, self._domain_rate = float(per_second), max(1.0, per_second / _SHARE)
        self._total = _Bucket(self._rate, now)
        self._by_domain: dict[str, _Bucket] = {}
        domains.find_registrable(tunnel_domain)  # loads the public suffix list now, not while a visitor waits

    def take(self, name: str, now: float) -> Exceeded:
        """Count the reads for a name in both budgets. If a budget is used up, count nothing and return which one."""
        domain, cost = self._group(name), self._cost(name)
        self._total.refill(self._rate, now)
        if self._total.tokens < min(cost, self._rate):
            return "host"
        bucket = self._by_domain.setdefault(domain, _Bucket(self._domain_rate, now))
        bucket.refill(self._domain_rate, now)
        if bucket.tokens < min(cost, self._domain_rate):
            return "domain"
        bucket.tokens -= cost
        self._total.tokens -= cost
        return ""

    def forget_idle(self, now: float) -> None:
        """Forget the domains that have their full budget again."""
        for bucket in self._by_domain.values():
            bucket.refill(self._domain_rate, now)
        self._by_domain = {
            name: bucket for name, bucket in self._by_domain.items() if bucket.tokens < self._domain_rate
        }

    def _group(self, name: str) -> str:
        if domains.is_below(name, self._tunnel_domain):
            return find_base_name(name, self._tunnel_domain)
        return domains.find_registrable(name)

    def _cost(self, name: str) -> int:
        """Return how many reads a name costs.

        A name with more labels costs more reads: any parent domain can be the proved domain that decides the account.
        """
        is_below = domains.is_below(name, self._tunnel_domain)
        return 1 if is_below else math.ceil(name.count(".") / _KEYS)


class Answers:
    """Names that are not served, oldest first, each with its account or "". A name stays for `lifetime` seconds."""

    def __init__(self, lifetime: float, limit: int) -> None:
        self._lifetime, self._limit = lifetime, limit
        # By name: the account, and the monotonic time at which the name is forgotten.
        self._names: dict[str, tuple[str, float]] = {}

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    @property
    def is_full(self) -> bool:
        return len(self._names) >= self._limit

    def add(self, name: str, account: str, now: float) -> None:
        """Remember a name. If there are too many, the oldest is forgotten."""
        self._names.pop(name, None)
        if self.is_full:
            del self._names[next(iter(self._names))]
        self._names[name] = account, now + self._lifetime

    def discard(self, name: str) -> None:
        self._names.pop(name, None)

    def take_expired(self, now: float) -> list[str]:
        """Forget the names with an expired answer, and return them."""
        expired = []
        for name, (_, end) in self._names.items():
            if end > now:
                break
            expired.append(name)
        return self._take(expired)

    def take_affected(self, accounts: Iterable[str], is_named: Callable[[str], bool]) -> list[str]:
        """Forget and return the names that a change affects.

        These are the names of `accounts`, and the names for which `is_named` returns true.
        """
        changed = frozenset(accounts)
        return self._take([name for name, (account, _) in self._names.items() if account in changed or is_named(name)])

    def _take(self, names: list[str]) -> list[str]:
        for name in names:
            del self._names[name]
        return names


class Unserved:
    """The names that are not served. Their handshakes are refused, or their visitors get a 404 page.

    Control removes the page of a name from Envoy after some seconds. Connections that got the page can stay open for
    `duration` seconds, and do not request the name's certificate again. If an account begins to serve the name in this
    time, control must load the name for these connections. After a change of an account, control loads only a few names
    below each base name, because strangers can invent names there.
    """

    def __init__(self, tunnel_domain: str, max_refused: int, max_pages: int, duration: float) -> None:
        self._tunnel_domain = tunnel_domain
        self.refused, self.pages = Answers(_NEGATIVE_TIME, max_refused), Answers(_PAGE_TIME, max_pages)
        self._visited = Answers(duration, max_pages)

    def add_unknown(self, name: str, account: str, now: float) -> None:
        """Remember that visitors of an unknown name get a 404 page."""
        self._visited.add(name, account, now)

    def take_affected(self, accounts: Collection[str], is_named: Callable[[str], bool]) -> tuple[list[str], list[str]]:
        """Forget the names of changed accounts, and the names for which `is_named` returns true.

        Return two lists: the names with a 404 page in Envoy, and the names to load for open connections. The second
        list has the latest names below each base name.
        """
        self.refused.take_affected(accounts, is_named)
        by_base: defaultdict[str, list[str]] = defaultdict(list)
        for name in self._visited.take_affected(accounts, is_named):
            by_base[find_base_name(name, self._tunnel_domain)].append(name)
        last = [name for names in by_base.values() for name in names[-_MAX_LOADED_AGAIN:]]
        return self.pages.take_affected(accounts, is_named), last

    def take_expired(self, now: float) -> list[str]:
        """Forget expired answers. Return the names with a 404 page that must be removed from Envoy."""
        self.refused.take_expired(now)
        self._visited.take_expired(now)
        return self.pages.take_expired(now)


def find_base_name(name: str, tunnel_domain: str) -> str:
    """Return the base name of a name: the part with one label below TUNNEL_DOMAIN. Return TUNNEL_DOMAIN for itself."""
    label = name.removesuffix(tunnel_domain).removesuffix(".").rpartition(".")[2]
    return f"{label}.{tunnel_domain}" if label else tunnel_domain


def is_host(name: str) -> bool:
    """Return whether a server name is a valid host name in normal form, and no wildcard."""
    try:
        return domains.normalize(name) == name and not name.startswith(domains.WILDCARD)
    except ValueError:
        return False


def is_proved_by(name: str, domain: str) -> bool:
    """Return whether a proof of a domain can affect a name: the domain itself, or a name below it."""
    return domains.is_below(name, domain.removeprefix(domains.WILDCARD))
