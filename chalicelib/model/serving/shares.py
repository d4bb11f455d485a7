"""The share of traffic that each tunnel group or HTTP response of a backend receives. This file does no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass

from chalicelib.model.edges.backends import HttpResponse, Weighted
from chalicelib.model.edges.served import ServedBackend

MAX_BACKENDS = 200  # the most backends per route, because each change of an edge processes the backends of all routes
WHOLE = 1_000_000_000  # the approximate sum of a backend's weights; Envoy rejects a sum of 2**32 or more


@dataclass(frozen=True)
class Shares:
    """Tunnel groups and HTTP responses with their weights, all above 0. `error` names backends that are left out."""

    weights: tuple[tuple[str, int], ...] = ()
    error: str = ""


def resolve(id: str, account: str, backends: Mapping[str, ServedBackend]) -> Shares:
    """Return the shares of a backend's tunnel groups and HTTP responses, without unknown backends and cycles.

    There are no shares if the record of the backend, or of a backend below it, is malformed.
    """
    tree = _Tree(account, backends)
    order = tree.collect(id)
    if unreadable := next(filter(tree.is_unreadable, order), None):
        return Shares(error=f"The record of {unreadable} is malformed.")
    if len(order) > MAX_BACKENDS:
        return Shares(error=f"The backend shares traffic between more than {MAX_BACKENDS} backends, the maximum.")
    tree.break_cycles(order)
    usable: set[str] = set()
    for backend_id in tree.children_first(id):
        if tree.is_leaf(backend_id) or tree.children(backend_id).keys() & usable:
            usable.add(backend_id)
    shares = dict.fromkeys(order, 0.0) | {id: 1.0}
    for backend_id in reversed(tree.children_first(id)):
        children = {child: weight for child, weight in tree.children(backend_id).items() if child in usable}
        unit = shares[backend_id] / (sum(children.values()) or 1)
        for child, weight in children.items():
            shares[child] += unit * weight
    weights = {
        backend_id: max(1, round(shares[backend_id] * WHOLE))
        for backend_id in order
        if backend_id in usable and tree.is_leaf(backend_id)
    }
    return Shares(tuple(sorted(weights.items())), " ".join(tree.errors))


class _Tree:
    """A backend with all backends below it. `errors` are sentences about backends that were left out."""

    def __init__(self, account: str, backends: Mapping[str, ServedBackend]) -> None:
        self.errors: list[str] = []
        self._account, self._backends = account, backends
        self._children: dict[str, Mapping[str, int]] = {}

    def is_leaf(self, id: str) -> bool:
        backend = self._backend(id)
        return backend is not None and not isinstance(backend.value, Weighted) and not _describe_unusable(backend)

    def is_unreadable(self, id: str) -> bool:
        backend = self._backend(id)
        return backend is not None and backend.value is None

    def children(self, id: str) -> Mapping[str, int]:
        return self._children.get(id, {})

    def collect(self, id: str) -> list[str]:
        """Return a backend and all backends below it. If there are more than MAX_BACKENDS, some are missing."""
        order, seen = [id], {id}
        for backend_id in order:
            if len(order) > MAX_BACKENDS:
                break
            self._children[backend_id] = self._weights(backend_id)
            new = [child for child in self._children[backend_id] if child not in seen]
            order += new
            seen.update(new)
        return order

    def break_cycles(self, order: list[str]) -> None:
        """Remove the children of each backend in a cycle."""
        leading = [id for id in order if self.children(id)]
        bits = {id: 1 << number for number, id in enumerate(leading)}
        # For each backend, a number with one bit for each other backend. The bit is 1 if that backend is below it.
        reach = {id: sum(bits.get(child, 0) for child in self.children(id)) for id in leading}
        for middle in leading:
            for id in leading:
                if reach[id] & bits[middle]:
                    reach[id] |= reach[middle]
        for id in leading:
            if reach[id] & bits[id]:
                self.errors.append(
                    f"The backend {id} shares traffic with itself, directly or through other backends, so it receives "
                    "none."
                )
                self._children[id] = {}

    def children_first(self, id: str) -> list[str]:
        """Return a backend and all backends below it, children before parents."""
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
        backend = self._backends.get(id)
        return backend if backend and backend.account == self._account else None

    def _weights(self, id: str) -> Mapping[str, int]:
        backend = self._backend(id)
        if backend is None:
            self.errors.append(f"The backend {id} does not exist.")
        elif error := _describe_unusable(backend):
            self.errors.append(error)
        elif isinstance(backend.value, Weighted):
            return {child: weight for child, weight in backend.value.backends.items() if weight > 0}
        return {}


def _describe_unusable(backend: ServedBackend) -> str:
    """Return why a backend cannot answer requests, or ""."""
    status = backend.value.status_code if isinstance(backend.value, HttpResponse) else 200
    problem = f"{backend.id} has the status_code {status}, which is not a final response: use 200 or above."
    return "" if status >= 200 else problem
