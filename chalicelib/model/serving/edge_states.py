"""The status of an edge, decided from the records and the reports of edge hosts. This file does no I/O.

After a change of an edge, one edge host connects to some of its names. This test is the "trial" of the revision.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from chalicelib import clock
from chalicelib.model.edges import application_errors, edge_status
from chalicelib.model.edges.edge_status import (
    NO_STATUS,
    BackendStatus,
    EdgeStatus,
    HostportStatus,
    Report,
    Reports,
    RouteStatus,
    State,
)
from chalicelib.model.edges.modules import basic_auth, webhook_verification
from chalicelib.model.edges.served import port_of
from chalicelib.model.serving import pages
from chalicelib.model.serving.account_view import AccountView
from chalicelib.model.serving.edge_plans import Plan, PlannedHost, RouteTarget
from chalicelib.model.serving.sites import OPERATOR
from chalicelib.model.serving.streams import is_group

# After a change, an edge without reports is "waiting" for at most this time. After that, only the records decide.
TRIAL_TIME = timedelta(seconds=60)


@dataclass(frozen=True)
class ReportedStatus:
    """The status of an edge, and the number of edge hosts that reported about it."""

    status: EdgeStatus
    hosts: int = 0


def decide(plan: Plan, view: AccountView, reports: Reports, changed: datetime, now: datetime) -> ReportedStatus:
    """Return the status of an edge. `changed` is the time of its last change.

    The status is "waiting" while no edge host is live. After a change, it is also "waiting" until the trial or an edge
    host has reported about the new revision, for at most TRIAL_TIME.
    """
    if not (reports.hosts and plan.hosts):
        return ReportedStatus(NO_STATUS)
    current = _Current(plan, reports, changed, now)
    hostports = tuple(current.hostport(host, view) for host in plan.hosts)
    state: State = edge_status.combine_states([hostport.state for hostport in hostports])
    routes = tuple(current.route(id, planned, error, state) for id, planned, error in _plan_routes(plan))
    groups = sorted(filter(is_group, plan.backends))
    counted = tuple(BackendStatus(id, len(view.members(view.backends[id]))) for id in groups)
    if state in ("live", "partly"):
        state = edge_status.combine_states([state, *(route.state for route in routes)])
    status = EdgeStatus(current.decide_overall(state), current.revision, current.at, hostports, routes, counted)
    return ReportedStatus(status, current.reporting)


def hostport_of(host: PlannedHost) -> str:
    """Return a planned host as host:port."""
    return host.name if port_of(host.name) else f"{host.name}:443"


def list_rejected(reports: Reports, revision: int) -> Mapping[str, str]:
    """Return Envoy's errors about a revision of an edge. Keys are hostports, or ids of routes or certificates."""
    return {name: error for report in _list_current(reports, revision) for name, error in report.errors.items()}


class _Current:
    """The reports about an edge's current revision."""

    def __init__(self, plan: Plan, reports: Reports, changed: datetime, now: datetime) -> None:
        revision, trial = plan.edge.revision, reports.trial
        self._trial = trial if trial and trial.revision == revision else None
        self._reports = _list_current(reports, revision)
        self._application_errors = reports.application_errors
        self._digests = {key: digest for target in plan.targets for key, digest in _list_digests(target)}
        self._hosts, self._changed = reports.hosts, clock.rfc3339(changed)
        self.is_waiting = not self._reports and now < changed + TRIAL_TIME
        self.revision = (trial.revision if trial else 0) if self.is_waiting else revision
        self.reporting = len({report.host for report in self._reports})
        self.at = max([self._changed, *(report.at for report in self._reports)])

    def decide_overall(self, state: State) -> State:
        return "waiting" if self.is_waiting else state

    def hostport(self, host: PlannedHost, view: AccountView) -> HostportStatus:
        certificate = "" if host.certificate == OPERATOR else host.certificate
        known = view.certificates.get(certificate)
        end = clock.rfc3339(known.not_after) if known else ""
        return HostportStatus(
            hostport_of(host), *self._decide(hostport_of(host), host.state, host.error), certificate, end
        )

    def route(self, id: str, state: State, error: str, of_hostports: State) -> RouteStatus:
        """Return the status of a route. A route can only be live if a hostport of the edge is live."""
        own_state, since, reason = self._application_error(id) or self._decide(id, state, error)
        hidden = own_state == "live" and of_hostports not in ("live", "partly")
        return RouteStatus(id, of_hostports if hidden else own_state, since, reason)

    def _application_error(self, route: str) -> tuple[State, str, str] | None:
        """Return the state, time and error of a route if the sign-in service reported an error about it, or None.

        Such a route could not sign in a visitor or decrypt a secret. Errors about earlier settings of the route's
        modules are ignored.
        """
        for key in application_errors.list_keys(route):
            error = self._application_errors.get(key)
            if error and error.digest == self._digests.get(key):
                return "refused", error.at, error.sentence
        return None

    def _decide(self, name: str, state: State, error: str) -> tuple[State, str, str]:
        """Return the state, time and error of a hostport or route. `state` and `error` come from the records, without
        reports.
        """
        if state != "live":
            return state, self._changed, error
        if self.is_waiting:
            return "waiting", self._changed, error
        if self._trial and (refused := self._trial.errors.get(name)):
            return "refused", self._trial.at, refused
        if errors := [(report.at, report.errors[name]) for report in self._reports if name in report.errors]:
            silent: list[State] = ["live"] * (self._hosts - len(errors))
            return edge_status.combine_states(["refused", *silent]), *max(errors)
        return "live", self._changed, error


def _list_digests(target: RouteTarget) -> Iterable[tuple[str, str]]:
    """Yield a key and a digest for each module of a route about which the sign-in service can report errors.

    The errors are stored by key. The digest is the digest of the module's current settings. An error with another
    digest is about earlier settings.
    """
    if target.rule:
        yield target.route.id, target.rule.digest
    modules, id = target.route.modules, target.route.id
    if passwords := modules.get(basic_auth.MODULE):
        yield application_errors.key_of(id, basic_auth.MODULE.name), passwords.digest
    if webhook := modules.get(webhook_verification.MODULE):
        yield application_errors.key_of(id, webhook_verification.MODULE.name), webhook.digest


def _plan_routes(plan: Plan) -> Iterable[tuple[str, State, str]]:
    """Yield the id, state and error of each route. Reports of edge hosts are not considered."""
    if plan.is_stream:
        refusal = plan.destinations.refusal
        yield from (
            (route.id, "refused" if refusal else "live", refusal or plan.destinations.error)
            for route in plan.edge.routes
        )
    for target in plan.targets:
        yield target.route.id, "live" if _is_open(target) else "refused", target.error


def _is_open(target: RouteTarget) -> bool:
    return not target.page or (target.page == pages.NO_BACKEND and not target.error)


def _list_current(reports: Reports, revision: int) -> list[Report]:
    """Return the reports of live edge hosts, and of the trial, about a revision of an edge."""
    all_reports = [*reports.statuses.values(), *([reports.trial] if reports.trial else [])]
    return [report for report in all_reports if report.revision == revision]
