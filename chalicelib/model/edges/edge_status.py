"""The reports of edge hosts: parts of edges and certificates that Envoy rejected, and the results of trials.

In a trial, a live host connects to some names of a changed edge. Each host writes its reports to a separate partition,
so that all reports of a host can be removed when the host ends. The result of a trial stays even when the host that
made the trial ends. Reports change no record of an edge and have no audit events.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Literal, NamedTuple

from chalicelib import clock
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import EDGE
from chalicelib.model.edges import application_errors
from chalicelib.model.edges.application_errors import ApplicationError
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import decoding, direct_writes, items, table
from chalicelib.storage.records.decoding import MalformedRecord

State = Literal["waiting", "live", "partly", "refused", "unproved"]

HOSTS = items.scope(EDGE, "/hosts")
MAX_ERROR = 400  # the most characters of a stored error message: all messages of an edge must fit into one record

_AT_ONCE = 100  # the most reports that one request removes
_VALIDITY = timedelta(days=1)  # older errors of a trial are not shown; a live host repeats the trial more often

# fields of a report that only earlier versions read
_FORMER = {"state": "refused", "hostports": [], "routes": [], "backends": []}
_WORST_STATES: tuple[State, ...] = ("refused", "unproved", "waiting")


@dataclass(frozen=True)
class HostportStatus:
    """The status of a hostport. `since` is the time at which its state began, `error` a sentence or "".

    `certificate_id` is "" if the host is served with the operator's certificate. `not_after` is the time at which the
    served certificate expires. Times are RFC 3339.
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
    """The status of a backend of an edge: the number of its online tunnels."""

    backend_id: str
    tunnels: int


@dataclass(frozen=True)
class EdgeStatus:
    """The status of a revision of an edge, for all edge hosts together. `at` is the time at which the status began."""

    state: State
    revision: int
    at: str
    hostports: tuple[HostportStatus, ...] = ()
    routes: tuple[RouteStatus, ...] = ()
    backends: tuple[BackendStatus, ...] = ()


@dataclass(frozen=True)
class Report:
    """A host's report about a revision of an edge, or about a certificate (with the revision 0).

    `errors` are Envoy's error messages, by hostport or by the id of a route or a certificate. Envoy accepted all other
    parts.
    """

    revision: int
    at: str
    host: str
    errors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Reports:
    """All reports about one edge.

    `hosts` is the number of live edge hosts. `statuses` are their reports by the host's id, `trial` is the result of
    the latest trial. `operator_names` are the names in the operator's certificates on these hosts.
    `application_errors` are from the sign-in service (see `application_errors.key_of` for the keys).
    """

    hosts: int = 0
    statuses: Mapping[str, Report] = field(default_factory=dict)
    trial: Report | None = None
    operator_names: frozenset[str] = frozenset()
    application_errors: Mapping[str, ApplicationError] = field(default_factory=dict)


@dataclass(frozen=True)
class _StoredReport:
    revision: int
    at: str
    host: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)
    hostports: Sequence[Mapping[str, Any]] = ()
    routes: Sequence[Mapping[str, Any]] = ()


class RejectedCertificate(NamedTuple):
    """A certificate of an account that Envoy rejects on at least one live edge host."""

    account: str
    certificate_id: str


NO_STATUS = EdgeStatus("waiting", 0, "")


def announce(host: str, operator_names: Iterable[str] = (), *, lease: int) -> None:
    """Register an edge host as live for `lease` seconds. Only reports of live hosts count. Raises aws.Unavailable.

    `operator_names` are the names in the operator's certificate that the host serves.
    """
    direct_writes.merge(HOSTS, host, {"operator_names": sorted(operator_names)}, lease=clock.seconds() + lease)


def list_hosts() -> list[str]:
    """Return the ids of the live edge hosts. Raises aws.Unavailable."""
    return [host.id for host in table.list_newest(HOSTS)]


def write_trial(account: str, edge_id: str, trial: Report) -> None:
    """Store the result of an edge's trial.

    In a trial, a live host connects to a changed edge. The result replaces the edge's earlier result. Raises
    aws.Unavailable.
    """
    _put(*_trial_item_key(account, edge_id), trial)


def remove_trial(account: str, edge_id: str) -> None:
    """Remove the stored trial result of a deleted edge. Raises aws.Unavailable."""
    dynamodb.do(Write.delete(*_trial_item_key(account, edge_id)))


def write(account: str, edge_id: str, report: Report) -> None:
    """Store a host's report about an edge. It replaces the host's earlier report. Raises aws.Unavailable."""
    _put(_scope(report.host), _id(account, edge_id), report)


def remove(account: str, edge_id: str, host: str) -> None:
    """Remove a host's report about an edge. Raises aws.Unavailable."""
    dynamodb.do(Write.delete(_scope(host), _id(account, edge_id)))


def read_statuses(host: str) -> dict[tuple[str, str], Report]:
    """Return the reports of an edge host, live or not. The keys are the account and id of an edge or certificate.

    Raises aws.Unavailable.
    """
    stored_reports = ((item.id, _decode(item.scope, item.id, host, item.body)) for item in table.read_all(_scope(host)))
    return {_parse_id(id): report for id, report in stored_reports if report}


def list_rejected_certificates() -> frozenset[RejectedCertificate]:
    """Return the certificates that live edge hosts report as rejected. Raises aws.Unavailable."""
    keys = (key for host in list_hosts() for key in read_statuses(host))
    return frozenset(RejectedCertificate(*key) for key in keys if kinds.TLS_CERTIFICATES.has(key[1]))


def remove_host(host: str) -> None:
    """Remove a host with its reports. After a failure, the call can be repeated. Raises aws.Unavailable."""
    written = [item.id for item in table.read_all(_scope(host))]
    for start in range(0, len(written), _AT_ONCE):
        dynamodb.transact([Write.delete(_scope(host), id) for id in written[start : start + _AT_ONCE]])
    dynamodb.do(Write.delete(HOSTS, host))


def remove_expired_hosts(*, grace: int) -> list[str]:
    """Remove edge hosts `grace` seconds after the end of their lease. Return their ids. Raises aws.Unavailable."""
    expired = [host for host in table.read_all(HOSTS) if (host.lease or 0) + grace < clock.seconds()]
    for host in expired:
        remove_host(host.id)
    return [host.id for host in expired]


def read_reports(account: str, edge_id: str) -> Reports:
    """Return all reports about an edge. Makes two calls to the table. Raises aws.Unavailable."""
    hosts = table.list_newest(HOSTS)
    edge_item_keys = [_trial_item_key(account, edge_id), application_errors.item_key(account, edge_id)]
    item_keys = [*edge_item_keys, *((_scope(host.id), _id(account, edge_id)) for host in hosts)]
    stored_records = table.read_records(item_keys) if hosts else {}
    trial, sign_in, *written = (stored_records.get(item_key) for item_key in item_keys)
    names = frozenset(name for host in hosts for name in host.body.get("operator_names", ()))
    statuses = {
        host.id: report
        for host, item_key, record in zip(hosts, item_keys[len(edge_item_keys) :], written, strict=bool(hosts))
        if record and (report := _decode(*item_key, host.id, record.get("body")))
    }
    of_applications = application_errors.decode(sign_in["body"]) if sign_in else {}
    return Reports(
        len(hosts), statuses, _decode_trial(*item_keys[0], trial.get("body")) if trial else None, names, of_applications
    )


def combine_states(states: Sequence[State]) -> State:
    """Return the state of an edge, given the states of its hostports and routes."""
    if len({*states}) == 1:
        return states[0]
    if "live" in states or "partly" in states:
        return "partly"
    return next(state for state in _WORST_STATES if state in states)


def _put(scope: str, id: str, report: Report) -> None:
    errors = {name: error[:MAX_ERROR] for name, error in report.errors.items()}
    body = {**asdict(report), "errors": errors, **_FORMER}
    direct_writes.merge(scope, id, body)


def _decode(scope: str, id: str, host: str, body: Any) -> Report | None:
    """Return a stored report, or None if its record is malformed.

    Reports of earlier versions have no `errors`: these are taken from the states of the hostports and routes.
    """
    try:
        stored = decoding.decode(_StoredReport, body)
    except MalformedRecord as malformed:
        decoding.report(scope, id, malformed)
        return None
    parts = [part for part in (*stored.hostports, *stored.routes) if part.get("state") == "refused"]
    refused = {part.get("hostport") or part.get("id", ""): part.get("error", "") for part in parts}
    return Report(stored.revision, stored.at, host or stored.host, stored.errors or refused)


def _decode_trial(scope: str, id: str, body: Any) -> Report | None:
    """Return the stored result of a trial. Return None if its record is malformed or its errors are too old."""
    trial = _decode(scope, id, "", body)
    return None if trial and trial.errors and clock.parse(trial.at) + _VALIDITY < clock.now() else trial


def _trial_item_key(account: str, edge_id: str) -> tuple[str, str]:
    return items.scope(account, "/edge_trials"), edge_id


def _scope(host: str) -> str:
    return items.scope(EDGE, f"/hosts/{host}/statuses")


def _id(account: str, edge_id: str) -> str:
    return f"{account} {edge_id}"


def _parse_id(id: str) -> tuple[str, str]:
    account, _, edge_id = id.partition(" ")
    return account, edge_id
