"""The status of an edge on the live edge: written by each edge host where it changes, read by the API.

Each host has a scope of its own, so that what it said goes with it. An edge's own record is not touched: a status is no
change of it, and has no event.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any, Literal, TypeVar

from chalicelib import clock
from chalicelib.model.kinds import EDGE
from chalicelib.storage import dynamodb, items, table
from chalicelib.storage.dynamodb import Write

State = Literal["waiting", "live", "partly", "refused", "unproved"]

HOSTS = items.scope(EDGE, "/hosts")
MAX_ERROR = 400  # characters: the statuses of the largest edge fit one record

_AT_ONCE = 100  # records in one request
_WORST_STATES: tuple[State, ...] = ("refused", "unproved", "waiting")
_WAITING: tuple[State, ...] = ("waiting",)


@dataclass(frozen=True)
class HostportStatus:
    """A hostport. `since` is when its state began, RFC 3339; `error` a sentence, "" where there is none.

    `certificate_id` is "" under the operator's certificate, `not_after` the end of either.
    """

    hostport: str
    state: State
    since: str
    error: str = ""
    certificate_id: str = ""
    not_after: str = ""


@dataclass(frozen=True)
class RouteStatus:
    """A route of an HTTPS edge."""

    id: str
    state: State
    since: str
    error: str = ""


@dataclass(frozen=True)
class BackendStatus:
    """A backend that the edge leads to, and how many tunnels stand behind it."""

    backend_id: str
    tunnels: int


@dataclass(frozen=True)
class EdgeStatus:
    """The status of an edge on one edge host: of its `revision`, since `at`."""

    state: State
    revision: int
    at: str
    hostports: tuple[HostportStatus, ...] = ()
    routes: tuple[RouteStatus, ...] = ()
    backends: tuple[BackendStatus, ...] = ()


Part = TypeVar("Part", HostportStatus, RouteStatus)
NO_STATUS = EdgeStatus("waiting", 0, "")


def announce(host: str, *, lease: int) -> None:
    """Say that an edge host lives for `lease` seconds: only what a living one said counts. Raises aws.Unavailable."""
    record = {"scope": HOSTS, "id": host, "body": {}, "lease": clock.seconds() + lease, "revision": 1}
    dynamodb.do(Write.put(record))


def write(account: str, edge_id: str, host: str, status: EdgeStatus) -> None:
    """Replace what a host says of an edge. Raises aws.Unavailable."""
    body = asdict(replace(status, hostports=_shorten_errors(status.hostports), routes=_shorten_errors(status.routes)))
    dynamodb.do(Write.put({"scope": _scope(host), "id": _id(account, edge_id), "body": body, "revision": 1}))


def remove(account: str, edge_id: str, host: str) -> None:
    """Remove the status that a host has written of an edge. Raises aws.Unavailable."""
    dynamodb.do(Write.delete(_scope(host), _id(account, edge_id)))


def read_statuses(host: str) -> dict[tuple[str, str], EdgeStatus]:
    """Return the statuses that a host, living or not, has written, by account and edge. Raises aws.Unavailable."""
    return {_parse_id(item.id): _decode(item.body) for item in table.every(_scope(host))}


def remove_host(host: str) -> None:
    """Remove a host with all that it said. Can be repeated. Raises aws.Unavailable."""
    said = [item.id for item in table.every(_scope(host))]
    for start in range(0, len(said), _AT_ONCE):
        dynamodb.transact([Write.delete(_scope(host), id) for id in said[start : start + _AT_ONCE]])
    dynamodb.do(Write.delete(HOSTS, host))


def remove_expired_hosts(*, grace: int) -> list[str]:
    """Withdraw the hosts whose lease ended more than `grace` seconds ago; return them. Raises aws.Unavailable."""
    gone = [host for host in table.every(HOSTS) if (host.lease or 0) + grace < clock.seconds()]
    for host in gone:
        remove_host(host.id)
    return [host.id for host in gone]


def read(account: str, edge_id: str, revision: int) -> tuple[EdgeStatus, int]:
    """Return the merged status of an edge with a present revision, and the number of living hosts that wrote one.

    Two calls. Raises aws.Unavailable.
    """
    places = [(_scope(host.id), _id(account, edge_id)) for host in table.newest(HOSTS)]
    found = [dynamodb.get_each(*places[start : start + _AT_ONCE]) for start in range(0, len(places), _AT_ONCE)]
    said = [_decode(record["body"]) for record in chain.from_iterable(found) if record]
    return merge(said, len(places) - len(said), revision), len(said)


def merge(said: Sequence[EdgeStatus], silent: int, revision: int) -> EdgeStatus:
    """Return the statuses of several hosts as one; `silent` is how many hosts have none, `revision` the present one.

    What is in one state everywhere is in that. What is live somewhere alone is `partly`. Otherwise the worst counts:
    refused, unproved, waiting. Whoever does not name a part waits. All times are the latest, the revision and the
    tunnels the lowest, and the certificate is the one that ends first.
    """
    if not said:
        return NO_STATUS
    lowest = min(it.revision for it in said)
    state = combine_states([*(it.state for it in said), *_WAITING * silent]) if lowest == revision else "waiting"
    hostports, routes = [it.hostports for it in said], [it.routes for it in said]
    return EdgeStatus(
        state,
        lowest,
        max(it.at for it in said),
        tuple(_with_first_end(same, _merge_part(same, len(said) + silent)) for same in _group(hostports, _hostport)),
        tuple(_merge_part(same, len(said) + silent) for same in _group(routes, _route)),
        _merge_backends(chain.from_iterable(it.backends for it in said)),
    )


def combine_states(states: Sequence[State]) -> State:
    """Return the state of what is made of parts in these states, at least one."""
    if len({*states}) == 1:
        return states[0]
    if "live" in states or "partly" in states:
        return "partly"
    return next(state for state in _WORST_STATES if state in states)


def _merge_part(same: Sequence[Part], hosts: int) -> Part:
    """Return a hostport or a route as those say that name it, of so many hosts."""
    state = combine_states([*(it.state for it in same), *_WAITING * (hosts - len(same))])
    error = next((it.error for it in same if it.error), "")
    return replace(same[0], state=state, since=max(it.since for it in same), error=error)


def _with_first_end(same: Sequence[HostportStatus], shown: HostportStatus) -> HostportStatus:
    found = min((it for it in same if it.not_after), key=lambda it: it.not_after, default=shown)
    return replace(shown, certificate_id=found.certificate_id, not_after=found.not_after)


def _merge_backends(said: Iterable[BackendStatus]) -> tuple[BackendStatus, ...]:
    fewest: dict[str, int] = {}
    for it in said:
        fewest[it.backend_id] = min(it.tunnels, fewest.get(it.backend_id, it.tunnels))
    return tuple(BackendStatus(*it) for it in fewest.items())


def _group(said: Iterable[Sequence[Part]], name: Callable[[Part], str]) -> Iterable[list[Part]]:
    """Return the parts of the same name, in the order in which the first host names them."""
    groups: dict[str, list[Part]] = {}
    for it in chain.from_iterable(said):
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
