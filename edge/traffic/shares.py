"""The shares of the tunnel groups and HTTP responses that a backend leads to in the end. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from chalicelib.model.backends import HttpResponse, Weighted
from chalicelib.model.served import ServedBackend

MAX_BACKENDS = 200  # that one route leads to: every route of an edge holds them, and each is looked at with each change
WHOLE = 1_000_000_000  # what all weights are together, about: Envoy's must be below 2 to the power of 32


@dataclass(frozen=True)
class Shares:
    """The groups and responses with the weight of each, none of 0; `error` says what counts as none, and why."""

    weights: tuple[tuple[str, int], ...] = ()
    error: str = ""


def resolve(id: str, account: str, backends: Mapping[str, ServedBackend]) -> Shares:
    """Return the shares of a backend of an account. What is unknown, or leads to itself, counts as none.

    There are none at all where one of those that it leads to cannot be understood.
    """
    tree = _Tree(account, backends)
    order = tree.collect(id)
    if unreadable := next(filter(tree.is_unreadable, order), None):
        return Shares(error=f"{unreadable} cannot be understood.")
    if len(order) > MAX_BACKENDS:
        return Shares(error=f"The backend leads to more than {MAX_BACKENDS} others.")
    tree.break_cycles(order)
    usable: set[str] = set()
    for it in tree.children_first(id):
        if tree.is_leaf(it) or tree.children(it).keys() & usable:
            usable.add(it)
    shares = dict.fromkeys(order, 0.0) | {id: 1.0}
    for it in reversed(tree.children_first(id)):
        children = {child: weight for child, weight in tree.children(it).items() if child in usable}
        unit = shares[it] / (sum(children.values()) or 1)
        for child, weight in children.items():
            shares[child] += unit * weight
    found = {it: max(1, round(shares[it] * WHOLE)) for it in order if it in usable and tree.is_leaf(it)}
    return Shares(tuple(sorted(found.items())), " ".join(tree.errors))


class _Tree:
    """The backends of an account as one leads to others; `errors` are sentences about those that count as none."""

    def __init__(self, account: str, backends: Mapping[str, ServedBackend]) -> None:
        self.errors: list[str] = []
        self._account, self._backends = account, backends
        self._children: dict[str, Mapping[str, int]] = {}

    def is_leaf(self, id: str) -> bool:
        found = self._backend(id)
        return found is not None and not isinstance(found.value, Weighted) and not _unusable(found)

    def is_unreadable(self, id: str) -> bool:
        found = self._backend(id)
        return found is not None and found.value is None

    def children(self, id: str) -> Mapping[str, int]:
        return self._children.get(id, {})

    def collect(self, id: str) -> list[str]:
        """Return a backend and all that it leads to, a few more than MAX_BACKENDS at most."""
        order, seen = [id], {id}
        for it in order:
            if len(order) > MAX_BACKENDS:
                break
            self._children[it] = self._weights(it)
            new = [child for child in self._children[it] if child not in seen]
            order += new
            seen.update(new)
        return order

    def break_cycles(self, order: list[str]) -> None:
        """Let what leads back to itself lead to nothing."""
        leading = [id for id in order if self.children(id)]
        bits = {id: 1 << place for place, id in enumerate(leading)}
        reach = {id: sum(bits.get(child, 0) for child in self.children(id)) for id in leading}  # sets, as bits
        for middle in leading:
            for id in leading:
                if reach[id] & bits[middle]:
                    reach[id] |= reach[middle]
        for id in leading:
            if reach[id] & bits[id]:
                self.errors.append(f"{id} leads back to itself.")
                self._children[id] = {}

    def children_first(self, id: str) -> list[str]:
        """Return a backend and all that it leads to, each behind all of those it leads to."""
        done: dict[str, None] = {}
        waiting = [id]
        while waiting:
            new = [child for child in self.children(waiting[-1]) if child not in done]
            if new and waiting[-1] not in done:
                waiting += new
            else:
                done.setdefault(waiting.pop())
        return list(done)

    def _backend(self, id: str) -> ServedBackend | None:
        found = self._backends.get(id)
        return found if found and found.account == self._account else None

    def _weights(self, id: str) -> Mapping[str, int]:
        found = self._backend(id)
        if found is None:
            self.errors.append(f"{id} is not known.")
        elif error := _unusable(found):
            self.errors.append(error)
        elif isinstance(found.value, Weighted):
            return {child: weight for child, weight in found.value.backends.items() if weight > 0}
        return {}


def _unusable(backend: ServedBackend) -> str:
    """Return why a backend can answer nothing, "" where it can."""
    status = backend.value.status_code if isinstance(backend.value, HttpResponse) else 200
    return "" if status >= 200 else f"{backend.id} has the status {status}, which ends no request."


def child_ids(backend: ServedBackend) -> Iterable[str]:
    """Return the ids of the backends that one shares its requests between, those of weight 0 too."""
    return backend.value.backends if isinstance(backend.value, Weighted) else ()
