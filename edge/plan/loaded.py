"""The loaded names, when they are unloaded, and the bounds on their memory. Pure. Times are monotonic seconds."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import Literal

Refusal = Literal["", "host", "account"]  # the bound that a name would exceed

_PRESSURE = 0.9  # the share of the host's memory bound above which memory is short
_EARLY = 0.1  # if memory is short, the share of a period after which a secret is removed


@dataclass(frozen=True)
class Bounds:
    """The bounds on loaded names. Their memory is estimated.

    The secret of a name is removed from Envoy after a `period` without a request. The scope with the routes of the name
    stays for `scope_lifetime` seconds after that.
    """

    host_kib: int
    names_per_account: int
    names_per_wildcard: int
    period: float
    scope_lifetime: float

    @property
    def account_kib(self) -> float:
        return self.host_kib / 10


@dataclass
class LoadedName:
    """A loaded name.

    `wildcard` is the wildcard host of the edge that serves it, or "" if an edge or tunnel has the name itself.
    `secret_removed_at` is None while Envoy has the secret. Envoy has no secret and no scope of a withdrawn name.
    Changes of its records are still read, because open connections of the name must be served when it is served again.
    """

    name: str
    account: str
    wildcard: str
    kib: int
    requested_at: float
    secret_removed_at: float | None = None
    is_withdrawn: bool = False


@dataclass(frozen=True)
class Room:
    """The decision about a name. `unloaded` names of its account must be unloaded first, or there is a `refusal`."""

    unloaded: tuple[str, ...] = ()
    refusal: Refusal = ""


class LoadedNames:
    """All loaded names. To learn which are in use, their secrets are removed: Envoy requests a secret only once."""

    def __init__(self, bounds: Bounds) -> None:
        self.kib = 0
        self._bounds = bounds
        self._with_secret: dict[str, LoadedName] = {}  # names by the time of their latest request
        self._without_secret: dict[str, LoadedName] = {}  # names by the time at which their secret was removed
        self._by_account: defaultdict[str, dict[str, LoadedName]] = defaultdict(dict)
        self._account_kib: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._with_secret) + len(self._without_secret)

    def __iter__(self) -> Iterator[LoadedName]:
        return chain(self._with_secret.values(), self._without_secret.values())

    @property
    def secrets(self) -> int:
        """Return the number of secrets that Envoy has."""
        return len(self._with_secret)

    def find(self, name: str) -> LoadedName | None:
        return self._with_secret.get(name) or self._without_secret.get(name)

    def make_room(self, wanted: LoadedName) -> Room:
        """Return which names to unload for a new or changed name. The bound of the host refuses only new names."""
        bounds, before = self._bounds, self.find(wanted.name)
        if wanted.kib > bounds.account_kib:
            return Room(refusal="account")
        unloaded = [it.name for it in self._list_unloaded(wanted)]
        freed = sum(self._by_account[wanted.account][name].kib for name in unloaded)
        if before is None and self.kib - freed + wanted.kib > bounds.host_kib:
            return Room(refusal="host")
        return Room(tuple(unloaded))

    def put(self, loaded: LoadedName) -> None:
        """Add or replace a name."""
        self.remove(loaded.name)
        self._by_account[loaded.account][loaded.name] = loaded
        self._account_kib[loaded.account] += loaded.kib
        self.kib += loaded.kib
        table = self._with_secret if loaded.secret_removed_at is None else self._without_secret
        table[loaded.name] = loaded

    def request(self, name: str, now: float) -> None:
        """Record that Envoy has requested the secret of a loaded name, and receives it."""
        loaded = self._with_secret.pop(name, None) or self._without_secret.pop(name)
        loaded.requested_at, loaded.secret_removed_at = now, None
        self._with_secret[name] = loaded

    def remove(self, name: str) -> None:
        """Forget a name, if it is loaded."""
        loaded = self._with_secret.pop(name, None) or self._without_secret.pop(name, None)
        if loaded is None:
            return
        self.kib -= loaded.kib
        self._account_kib[loaded.account] -= loaded.kib
        of_account = self._by_account[loaded.account]
        del of_account[name]
        if not of_account:
            del self._by_account[loaded.account], self._account_kib[loaded.account]

    def take_unrequested(self, now: float) -> list[LoadedName]:
        """Mark the secrets of names that were not requested for a period as removed. Return these names.

        If memory is short, a tenth of a period is enough. If visitors use such a name, Envoy requests its secret again.
        """
        period = self._bounds.period * (_EARLY if self.is_under_pressure else 1)
        due = list(takewhile(lambda it: it.requested_at + period <= now, self._with_secret.values()))
        for loaded in due:
            del self._with_secret[loaded.name]
            loaded.secret_removed_at = now
            self._without_secret[loaded.name] = loaded
        return due

    def list_unused(self, now: float) -> list[LoadedName]:
        """Return the names to unload: without a request for two periods, and without possible open connections.

        If memory is short, names with possible open connections follow, the oldest first, until there is enough memory.
        Their open connections get 404.
        """
        unused_since = now - 2 * self._bounds.period
        unrequested = takewhile(lambda it: it.requested_at <= unused_since, self._without_secret.values())
        excess = self.kib - self._bounds.host_kib * _PRESSURE
        due: list[LoadedName] = []
        for loaded in unrequested:
            removed_at = loaded.secret_removed_at or 0.0
            if excess <= 0 and removed_at + self._bounds.scope_lifetime > now:
                break
            due.append(loaded)
            excess -= loaded.kib
        return due

    @property
    def is_under_pressure(self) -> bool:
        return self.kib > self._bounds.host_kib * _PRESSURE

    def _list_unloaded(self, wanted: LoadedName) -> Iterator[LoadedName]:
        """Yield the names of a wildcard or account that must be unloaded to make room for another name.

        Names without a secret come first, ordered by the time of its removal. Other names follow, ordered by the time
        of their latest request.
        """
        every = self._by_account.get(wanted.account, {})
        known = every.get(wanted.name)
        below = sum(it.wildcard == wanted.wildcard for it in every.values()) if wanted.wildcard else 0
        too_many_below = below + (known is None or known.wildcard != wanted.wildcard) - self._bounds.names_per_wildcard
        too_many = len(every) + (known is None) - self._bounds.names_per_account
        excess = self._account_kib[wanted.account] - (known.kib if known else 0) + wanted.kib - self._bounds.account_kib
        too_many_below = too_many_below if wanted.wildcard else 0
        if max(too_many_below, too_many, excess) <= 0:
            return
        for loaded in sorted((it for it in every.values() if it is not known), key=_age):
            is_below = bool(wanted.wildcard) and loaded.wildcard == wanted.wildcard
            if too_many > 0 or excess > 0 or (too_many_below > 0 and is_below):
                too_many, excess, too_many_below = too_many - 1, excess - loaded.kib, too_many_below - is_below
                yield loaded


def _age(loaded: LoadedName) -> tuple[bool, float]:
    """Return the sort key for unloading: names without a secret first, then the oldest request."""
    removed_at = loaded.secret_removed_at
    return removed_at is None, loaded.requested_at if removed_at is None else removed_at
