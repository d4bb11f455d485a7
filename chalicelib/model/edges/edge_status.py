"""What edge hosts report about edges: values that Envoy rejected, and the results of trials.

Each host writes its statuses to a separate scope, so that they can be removed with it. A trial stays if its host ends.
The record of the edge does not change and no audit event is written.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
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


@dataclass(frozen=True)
class Trial:
    """The result of connections to an edge's names, made by one host after a change of the edge.

    `errors` are Envoy's sentences by hostport or id of a route, empty if Envoy accepted all of the revision.
    """

    revision: int
    at: str
    host: str
    errors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Reports:
    """What the live edge reports about an edge: the statuses of live hosts by id, and the trial of some revision.

    `hosts` is the number of live hosts, and `operator_names` are the names in their operator certificates.
    """

    hosts: int = 0
    statuses: Mapping[str, EdgeStatus] = field(default_factory=dict)
    trial: Trial | None = None
    operator_names: frozenset[str] = frozenset()


Part = TypeVar("Part", HostportStatus, RouteStatus)
NO_STATUS = EdgeStatus("waiting", 0, "")


def announce(host: str, operator_names: Iterable[str] = (), *, lease: int) -> None:
    """Register an edge host for `lease` seconds. Only statuses of live hosts count. Raises aws.Unavailable.

    `operator_names` are the names in the operator's certificate.
    """
    body = {"operator_names": sorted(operator_names)}
    record = {"scope": HOSTS, "id": host, "body": body, "lease": clock.seconds() + lease, "revision": 1}
    dynamodb.do(Write.put(record))


def list_hosts() -> list[str]:
    """Return the ids of the live hosts. Raises aws.Unavailable."""
    return [it.id for it in table.newest(HOSTS)]


def write_trial(account: str, edge_id: str, trial: Trial) -> None:
    """Replace the result of the trial of an edge. Raises aws.Unavailable."""
    scope, id = _trial_place(account, edge_id)
    body = {**asdict(trial), "errors": {name: error[:MAX_ERROR] for name, error in trial.errors.items()}}
    dynamodb.do(Write.put({"scope": scope, "id": id, "body": body, "revision": 1}))


def remove_trial(account: str, edge_id: str) -> None:
    """Remove the result of the trial of a deleted edge. Raises aws.Unavailable."""
    dynamodb.do(Write.delete(*_trial_place(account, edge_id)))


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


def read_reports(account: str, edge_id: str) -> Reports:
    """Return what the live hosts and the trial report about an edge. Two calls. Raises aws.Unavailable."""
    hosts = table.newest(HOSTS)
    places = [_trial_place(account, edge_id), *((_scope(host.id), _id(account, edge_id)) for host in hosts)]
    found = table.records(places) if hosts else {}
    trial, *written = (found.get(place) for place in places)
    names = frozenset(name for host in hosts for name in host.body.get("operator_names", ()))
    statuses = {host.id: _decode(it["body"]) for host, it in zip(hosts, written, strict=bool(hosts)) if it}
    return Reports(len(hosts), statuses, _decode_trial(trial["body"]) if trial else None, names)


def combine_states(states: Sequence[State]) -> State:
    """Return the state of a whole, given the states of its parts."""
    if len({*states}) == 1:
        return states[0]
    if "live" in states or "partly" in states:
        return "partly"
    return next(state for state in _WORST_STATES if state in states)


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


def _decode_trial(body: Mapping[str, Any]) -> Trial:
    return Trial(body["revision"], body["at"], body["host"], body["errors"])


def _trial_place(account: str, edge_id: str) -> tuple[str, str]:
    return items.scope(account, "/edge_trials"), edge_id


def _scope(host: str) -> str:
    return items.scope(EDGE, f"/hosts/{host}/statuses")


def _id(account: str, edge_id: str) -> str:
    return f"{account} {edge_id}"


def _parse_id(id: str) -> tuple[str, str]:
    account, _, edge_id = id.partition(" ")
    return account, edge_id
