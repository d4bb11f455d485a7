"""The status of edges on the live edge. Edge hosts write it when it changes; the API reads it.

Each host writes to a separate scope, so that its statuses can be removed with it. The record of the edge does not
change and no audit event is written.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any, Literal, TypeVar

from chalicelib import clock
from chalicelib.model.base.kinds import EDGE
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import items, table

State = Literal["waiting", "live", "partly", "refused", "unproved"]

HOSTS = items.scope(EDGE, "/hosts")
MAX_ERROR = 400  # characters: the statuses of the largest edge fit one record

_AT_ONCE = 100  # records in one request
_WORST_STATES: tuple[State, ...] = ("refused", "unproved", "waiting")
_WAITING: tuple[State, ...] = ("waiting",)


@dataclass(frozen=True)
class HostportStatus:
    """The status of a hostport. `since` is the time at which its state began, `error` a sentence or "".

    `certificate_id` is "" if it is served with the operator's certificate; `not_after` is the end of the certificate
    in both cases. Times are RFC 3339.
    """

    hostport: str
    state: State
    since: str
    error: str = ""
    certificate_id: str = ""
    not_after: str = ""


@dataclass(frozen=True)
class RouteStatus:
    """The status of a route of an HTTPS edge."""

    id: str
    state: State
    since: str
    error: str = ""


@dataclass(frozen=True)
class BackendStatus:
    """The number of tunnels of a backend of the edge."""

    backend_id: str
    tunnels: int


@dataclass(frozen=True)
class EdgeStatus:
    """The status of an edge revision on one host, since `at`."""

    state: State
    revision: int
    at: str
    hostports: tuple[HostportStatus, ...] = ()
    routes: tuple[RouteStatus, ...] = ()
    backends: tuple[BackendStatus, ...] = ()


Part = TypeVar("Part", HostportStatus, RouteStatus)
NO_STATUS = EdgeStatus("waiting", 0, "")


def announce(host: str, *, lease: int) -> None:
    """Register an edge host for `lease` seconds. Only statuses of live hosts count. Raises aws.Unavailable."""
    record = {"scope": HOSTS, "id": host, "body": {}, "lease": clock.seconds() + lease, "revision": 1}
    dynamodb.do(Write.put(record))


def write(account: str, edge_id: str, host: str, status: EdgeStatus) -> None:
    """Replace the status of an edge on a host. Raises aws.Unavailable."""
    body = asdict(replace(status, hostports=_shorten_errors(status.hostports), routes=_shorten_errors(status.routes)))
    dynamodb.do(Write.put({"scope": _scope(host), "id": _id(account, edge_id), "body": body, "revision": 1}))


def remove(account: str, edge_id: str, host: str) -> None:
    """Remove the status of an edge on a host. Raises aws.Unavailable."""
    dynamodb.do(Write.delete(_scope(host), _id(account, edge_id)))


def read_statuses(host: str) -> dict[tuple[str, str], EdgeStatus]:
    """Return the statuses of a host, live or not, by account and edge. Raises aws.Unavailable."""
    return {_parse_id(item.id): _decode(item.body) for item in table.every(_scope(host))}


def remove_host(host: str) -> None:
    """Remove a host with its statuses. Can be repeated. Raises aws.Unavailable."""
    written = [item.id for item in table.every(_scope(host))]
    for start in range(0, len(written), _AT_ONCE):
        dynamodb.transact([Write.delete(_scope(host), id) for id in written[start : start + _AT_ONCE]])
    dynamodb.do(Write.delete(HOSTS, host))


def remove_expired_hosts(*, grace: int) -> list[str]:
    """Remove the hosts with a lease that ended `grace` seconds ago. Return them. Raises aws.Unavailable."""
    expired = [host for host in table.every(HOSTS) if (host.lease or 0) + grace < clock.seconds()]
    for host in expired:
        remove_host(host.id)
    return [host.id for host in expired]


def read(account: str, edge_id: str, revision: int) -> tuple[EdgeStatus, int]:
    """Return the merged status of an edge, and the number of its hosts.

    Only live hosts with a status count. `revision` is the current one of the edge. Two calls. Raises aws.Unavailable.
    """
    places = [(_scope(host.id), _id(account, edge_id)) for host in table.newest(HOSTS)]
    found = [dynamodb.get_each(*places[start : start + _AT_ONCE]) for start in range(0, len(places), _AT_ONCE)]
    statuses = [_decode(record["body"]) for record in chain.from_iterable(found) if record]
    return merge(statuses, len(places) - len(statuses), revision), len(statuses)


def merge(statuses: Sequence[EdgeStatus], missing: int, revision: int) -> EdgeStatus:
    """Return the merged status of several hosts.

    `missing` is the number of hosts without a status, `revision` the current one of the edge. If all hosts agree, their
    state is the result. If some are live, it is `partly`. Otherwise it is the worst: refused, unproved, waiting. A host
    without a status of a part counts as waiting. Times are the latest; revision and tunnels are the lowest; the
    certificate is the first to end.
    """
    if not statuses:
        return NO_STATUS
    lowest = min(it.revision for it in statuses)
    state = combine_states([*(it.state for it in statuses), *_WAITING * missing]) if lowest == revision else "waiting"
    hostports, routes = [it.hostports for it in statuses], [it.routes for it in statuses]
    return EdgeStatus(
        state,
        lowest,
        max(it.at for it in statuses),
        tuple(
            _with_first_end(parts, _merge_part(parts, len(statuses) + missing))
            for parts in _group(hostports, _hostport)
        ),
        tuple(_merge_part(parts, len(statuses) + missing) for parts in _group(routes, _route)),
        _merge_backends(chain.from_iterable(it.backends for it in statuses)),
    )


def combine_states(states: Sequence[State]) -> State:
    """Return the state of a whole, given the states of its parts."""
    if len({*states}) == 1:
        return states[0]
    if "live" in states or "partly" in states:
        return "partly"
    return next(state for state in _WORST_STATES if state in states)


def _merge_part(parts: Sequence[Part], hosts: int) -> Part:
    """Return the merged status of a hostport or route."""
    state = combine_states([*(it.state for it in parts), *_WAITING * (hosts - len(parts))])
    error = next((it.error for it in parts if it.error), "")
    return replace(parts[0], state=state, since=max(it.since for it in parts), error=error)


def _with_first_end(parts: Sequence[HostportStatus], merged: HostportStatus) -> HostportStatus:
    found = min((it for it in parts if it.not_after), key=lambda it: it.not_after, default=merged)
    return replace(merged, certificate_id=found.certificate_id, not_after=found.not_after)


def _merge_backends(backends: Iterable[BackendStatus]) -> tuple[BackendStatus, ...]:
    fewest: dict[str, int] = {}
    for it in backends:
        fewest[it.backend_id] = min(it.tunnels, fewest.get(it.backend_id, it.tunnels))
    return tuple(BackendStatus(*it) for it in fewest.items())


def _group(by_host: Iterable[Sequence[Part]], name: Callable[[Part], str]) -> Iterable[list[Part]]:
    """Return the parts grouped by name, in order of first appearance."""
    groups: dict[str, list[Part]] = {}
    for it in chain.from_iterable(by_host):
        groups.setdefault(name(it), []).append(it)
    return groups.values()


def _hostport(status: HostportStatus) -> str:
    return status.hostport


def _route(status: RouteStatus) -> str:
    return status.id


def _shorten_errors(parts: Sequence[Part]) -> tuple[Part, ...]:
    return tuple(replace(it, error=it.error[:MAX_ERROR]) for it in parts)


def _decode(body: Mapping[str, Any]) -> EdgeStatus:
    return EdgeStatus(
        body["state"],
        body["revision"],
        body["at"],
        tuple(HostportStatus(**it) for it in body["hostports"]),
        tuple(RouteStatus(**it) for it in body["routes"]),
        tuple(BackendStatus(**it) for it in body["backends"]),
    )


def _scope(host: str) -> str:
    return items.scope(EDGE, f"/hosts/{host}/statuses")


def _id(account: str, edge_id: str) -> str:
    return f"{account} {edge_id}"


def _parse_id(id: str) -> tuple[str, str]:
    account, _, edge_id = id.partition(" ")
    return account, edge_id
