"""The loaded names: server names with resources in Envoy. This file does no I/O.

Control loads a name when Envoy requests the name's secret (certificate and key). The memory of all loaded names is
bounded, so this file decides which names are unloaded, and when. Times are monotonic seconds.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import Literal

Refusal = Literal["", "host", "account"]  # the bound on memory that a refused name would exceed, or "" if not refused

_PRESSURE = 0.9  # memory is short if the loaded names take more than this share of `host_kib`
_EARLY = 0.1  # if memory is short, secrets are removed after this share of `Bounds.period`


@dataclass(frozen=True)
class Bounds:
    """The bounds on loaded names: estimated memory in KiB, number of names, and times in seconds.

    If Envoy has not requested the secret of a name for `period`, the secret is removed from Envoy. The scope (the
    routes of the name) stays for `scope_lifetime` after that.
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
    """A server name with resources in Envoy.

    `wildcard` is the wildcard host of the edge that serves the name, or "" if an edge or tunnel has exactly this name.
    `secret_removed_at` is None while Envoy has the secret.

    A withdrawn name is a name that no edge or tunnel serves any more. Envoy has neither its secret nor its scope, but
    control still reads changes of its records. If the name is served again, its open connections are served, too.
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
    """The decision whether a name can be loaded.

    If `refusal` is "", the name can be loaded after the names in `unloaded` have been unloaded. These names belong to
    the same account.
    """

    unloaded: tuple[str, ...] = ()
    refusal: Refusal = ""


class LoadedNames:
    """All loaded names of this host.

    Envoy requests a secret that it has only once, so further visitors of the name are not visible here. Therefore,
    secrets are removed after a while: if a name is still in use, Envoy requests its secret again.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.kib = 0
        self._bounds = bounds
        self._with_secret: dict[str, LoadedName] = {}  # by name, in the order of Envoy's latest requests
        self._without_secret: dict[str, LoadedName] = {}  # by name, in the order in which the secrets were removed
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

    def make_room(self, candidate: LoadedName) -> Room:
        """Return which names to unload to make room for a new or changed name.

        A name is refused if it takes more memory than its account may have. A new name is also refused if the host's
        bound would be exceeded.
        """
        bounds, before = self._bounds, self.find(candidate.name)
        if candidate.kib > bounds.account_kib:
            return Room(refusal="account")
        unloaded = [loaded.name for loaded in self._list_unloaded(candidate)]
        freed = sum(self._by_account[candidate.account][name].kib for name in unloaded)
        if before is None and self.kib - freed + candidate.kib > bounds.host_kib:
            return Room(refusal="host")
        return Room(tuple(unloaded))

    def put(self, loaded: LoadedName) -> None:
        """Add a loaded name. Replace an earlier entry of the same name."""
        self.remove(loaded.name)
        self._by_account[loaded.account][loaded.name] = loaded
        self._account_kib[loaded.account] += loaded.kib
        self.kib += loaded.kib
        table = self._with_secret if loaded.secret_removed_at is None else self._without_secret
        table[loaded.name] = loaded

    def request(self, name: str, now: float) -> None:
        """Record that Envoy has requested and receives the secret of a loaded name."""
        loaded = self._with_secret.pop(name, None) or self._without_secret.pop(name)
        loaded.requested_at, loaded.secret_removed_at = now, None
        self._with_secret[name] = loaded

    def remove(self, name: str) -> None:
        """Remove the entry of a name, if the name is loaded."""
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
        """Mark secrets that Envoy has not requested for `Bounds.period` as removed. Return their names.

        If memory is short, secrets are removed after a tenth of this period. If a visitor uses the name later, Envoy
        requests its secret again.
        """
        period = self._bounds.period * (_EARLY if self.is_under_pressure else 1)
        unrequested = list(takewhile(lambda loaded: loaded.requested_at + period <= now, self._with_secret.values()))
        for loaded in unrequested:
            del self._with_secret[loaded.name]
            loaded.secret_removed_at = now
            self._without_secret[loaded.name] = loaded
        return unrequested

    def list_unused(self, now: float) -> list[LoadedName]:
        """Return the names to unload because they are not used any more.

        Envoy has not requested the secret of such a name for two times `Bounds.period`, and the secret was removed at
        least `scope_lifetime` ago. Before that, visitors can still have open connections to the name. If memory is
        short, `scope_lifetime` is ignored until there is enough memory: the name with the earliest removed secret is
        unloaded first. Requests on its open connections then get 404.
        """
        unused_since = now - 2 * self._bounds.period
        unrequested = takewhile(lambda loaded: loaded.requested_at <= unused_since, self._without_secret.values())
        excess = self.kib - self._bounds.host_kib * _PRESSURE
        unused: list[LoadedName] = []
        for loaded in unrequested:
            removed_at = loaded.secret_removed_at or 0.0
            if excess <= 0 and removed_at + self._bounds.scope_lifetime > now:
                break
            unused.append(loaded)
            excess -= loaded.kib
        return unused

    @property
    def is_under_pressure(self) -> bool:
        return self.kib > self._bounds.host_kib * _PRESSURE

    def _list_unloaded(self, candidate: LoadedName) -> Iterator[LoadedName]:
        """Yield the names of the account that must be unloaded to make room for the `candidate` name.

        If only the bound on the names of a wildcard is exceeded, only names of the same wildcard are yielded. They are
        in the order of `_age`.
        """
        entries = self._by_account.get(candidate.account, {})
        current = entries.get(candidate.name)
        below = sum(entry.wildcard == candidate.wildcard for entry in entries.values()) if candidate.wildcard else 0
        too_many_below = (
            below + (current is None or current.wildcard != candidate.wildcard) - self._bounds.names_per_wildcard
        )
        too_many = len(entries) + (current is None) - self._bounds.names_per_account
        excess = (
            self._account_kib[candidate.account]
            - (current.kib if current else 0)
            + candidate.kib
            - self._bounds.account_kib
        )
        too_many_below = too_many_below if candidate.wildcard else 0
        if max(too_many_below, too_many, excess) <= 0:
            return
        for loaded in sorted((entry for entry in entries.values() if entry is not current), key=_age):
            is_below = bool(candidate.wildcard) and loaded.wildcard == candidate.wildcard
            if too_many > 0 or excess > 0 or (too_many_below > 0 and is_below):
                too_many, excess, too_many_below = too_many - 1, excess - loaded.kib, too_many_below - is_below
                yield loaded


def _age(loaded: LoadedName) -> tuple[bool, float]:
    """Return the sort key for unloading: names with the smallest key are unloaded first.

    Names without a secret come first, ordered by the time at which the secret was removed. The others follow, ordered
    by the time of Envoy's latest request for the secret.
    """
    removed_at = loaded.secret_removed_at
    return removed_at is None, loaded.requested_at if removed_at is None else removed_at
