"""The status of an edge from its records and from what Envoy rejected, as tables."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from chalicelib import clock
from chalicelib.model.edges.application_errors import ApplicationError
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
from chalicelib.model.edges.modules.basic_auth import BasicAuthRule
from chalicelib.model.edges.modules.webhook_verification import WebhookRule
from chalicelib.model.edges.served import ServedEdge
from chalicelib.model.edges.sign_in_rules import SignInRule
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.serving import edge_plans, edge_states
from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.serving.account_view import AccountView, Service
from chalicelib.model.serving.edge_states import ReportedStatus
from tests.edge.edge_modules import extended
from tests.edge.plan.worlds import EDGE, GATEWAY, GROUP, HOST, NOW, A, certificate, edge, group, route, tunnel

SERVICE = Service("tunnels.localhost", range(20000, 20002), frozenset({"tunnels.localhost", "*.tunnels.localhost"}))
PROVED = "shop.example.com"
SERVED = replace(edge(route(), hosts=(HOST, PROVED)), revision=7)
AT = clock.rfc3339(NOW - timedelta(minutes=10))
LATER = clock.rfc3339(NOW - timedelta(seconds=1))
END = clock.rfc3339(NOW + timedelta(1))
HOSTPORT, OTHER = f"{HOST}:443", f"{PROVED}:443"
ROUTE = "edghtsrt_1"
TRIED = Report(7, LATER, "one")
SENTENCE = "Envoy's own sentence."


def decide(reports: Reports, served: ServedEdge = SERVED, seconds: int = 600) -> ReportedStatus:
    records = AccountRecords(
        A,
        frozenset(),
        tunnels={"tn_1": tunnel()},
        gateways={GATEWAY.id: GATEWAY},
        edges={EDGE: served},
        backends={GROUP: group()},
        certificates={"cert_1": certificate("cert_1", PROVED)},
        rejected=edge_states.list_rejected(reports, served.revision),
        reservations=(ServedReservation(A, "rsvd_1", PROVED, True),),
    )
    view = AccountView(records, SERVICE)
    changed_at = NOW - timedelta(seconds=seconds)
    return edge_states.decide(edge_plans.make_plan(served, view, NOW), view, reports, changed_at, NOW)


def summarize(reported: ReportedStatus) -> tuple[State, int, int, Mapping[str, State]]:
    """Return state, revision and hosts, and the states of the parts."""
    status = reported.status
    parts = {hostport.hostport: hostport.state for hostport in status.hostports} | {
        route.id: route.state for route in status.routes
    }
    return status.state, status.revision, reported.hosts, parts


def build_rejection(*names: str, host: str = "one", revision: int = 7) -> Report:
    return Report(revision, LATER, host, dict.fromkeys(names, SENTENCE))


def states(first: State, second: State, of_route: State) -> dict[str, State]:
    return {HOSTPORT: first, OTHER: second, ROUTE: of_route}


LIVE, WAITING = states("live", "live", "live"), states("waiting", "waiting", "waiting")
REFUSED, PARTLY = states("refused", "refused", "refused"), states("refused", "live", "live")


def test_a_trial_makes_an_edge_live() -> None:
    hostports = (HostportStatus(HOSTPORT, "live", AT), HostportStatus(OTHER, "live", AT, "", "cert_1", END))
    status = EdgeStatus("live", 7, LATER, hostports, (RouteStatus(ROUTE, "live", AT),), (BackendStatus(GROUP, 1),))

    assert decide(Reports(2, trial=TRIED)) == ReportedStatus(status, 1)


@pytest.mark.parametrize(
    ("reports", "seconds", "expected"),
    [
        (Reports(), 600, ("waiting", 0, 0, {})),
        (Reports(trial=TRIED), 5, ("waiting", 0, 0, {})),
        (Reports(1), 59, ("waiting", 0, 0, WAITING)),
        (Reports(1), 60, ("live", 7, 0, LIVE)),
        (Reports(1, trial=TRIED), 5, ("live", 7, 1, LIVE)),
        (Reports(1, trial=build_rejection(revision=6)), 5, ("waiting", 6, 0, WAITING)),
        (Reports(1, trial=build_rejection(HOSTPORT, revision=6)), 60, ("live", 7, 0, LIVE)),
        (Reports(1, trial=build_rejection(HOSTPORT)), 5, ("partly", 7, 1, PARTLY)),
        (Reports(1, trial=build_rejection(HOSTPORT, OTHER)), 5, ("refused", 7, 1, REFUSED)),
        (Reports(1, {"one": build_rejection(HOSTPORT)}, TRIED), 600, ("partly", 7, 1, PARTLY)),
        (
            Reports(2, {"two": build_rejection(HOSTPORT, host="two")}, TRIED),
            600,
            ("partly", 7, 2, states("partly", "live", "live")),
        ),
        (
            Reports(2, {"one": build_rejection(HOSTPORT), "two": build_rejection(HOSTPORT, host="two")}),
            5,
            ("partly", 7, 2, PARTLY),
        ),
        (Reports(1, {"one": build_rejection(HOSTPORT, revision=6)}, TRIED), 600, ("live", 7, 1, LIVE)),
        (Reports(1, {"one": build_rejection()}), 5, ("live", 7, 1, LIVE)),  # of a former version
        (Reports(1, trial=build_rejection(ROUTE)), 5, ("partly", 7, 1, states("live", "live", "refused"))),
        (
            Reports(2, {"two": build_rejection(ROUTE, host="two")}),
            5,
            ("partly", 7, 1, states("live", "live", "partly")),
        ),
    ],
)
def test_reports_decide_with_the_records(
    reports: Reports, seconds: int, expected: tuple[State, int, int, dict[str, State]]
) -> None:
    assert summarize(decide(reports, seconds=seconds)) == expected


@pytest.mark.parametrize(("digest", "state"), [("d", "refused"), ("former", "live")])
def test_an_application_that_the_provider_refuses_is_shown(digest: str, state: State) -> None:
    oauth = SignInRule("github", "d", client_id="app")
    served = replace(
        SERVED, routes=(replace(SERVED.routes[0], modules=extended(SERVED.routes[0].modules, oauth=oauth)),)
    )
    error = ApplicationError(digest, LATER, "application")
    (route_status,) = decide(Reports(1, trial=TRIED, application_errors={ROUTE: error}), served).status.routes
    since, sentence = (LATER, error.sentence) if state == "refused" else (AT, "")
    assert route_status == RouteStatus(ROUTE, state, since, sentence)


@pytest.mark.parametrize(
    ("module", "rule", "reason", "sentence"),
    [
        (
            "basic_auth",
            BasicAuthRule("d"),
            "passwords",
            "The passwords cannot be decrypted: set the credentials again.",
        ),
        (
            "webhook_verification",
            WebhookRule("SLACK", "d"),
            "webhook",
            "The webhook secret cannot be decrypted: set the secret again.",
        ),
    ],
)
@pytest.mark.parametrize(("digest", "state"), [("d", "refused"), ("former", "live")])
def test_a_secret_that_cannot_be_decrypted_is_shown(
    digest: str, state: State, module: str, rule: object, reason: str, sentence: str
) -> None:
    modules = extended(SERVED.routes[0].modules, **{module: rule})
    served = replace(SERVED, routes=(replace(SERVED.routes[0], modules=modules),))
    errors = {f"{ROUTE}_{module}": ApplicationError(digest, LATER, reason)}
    (route_status,) = decide(Reports(1, trial=TRIED, application_errors=errors), served).status.routes
    assert route_status == RouteStatus(ROUTE, state, *((LATER, sentence) if state == "refused" else (AT, "")))


def test_the_sentence_of_envoy_is_shown() -> None:
    first = HostportStatus(HOSTPORT, "refused", LATER, SENTENCE)

    assert decide(Reports(1, trial=build_rejection(HOSTPORT))).status.hostports[0] == first
    assert decide(Reports(1, {"one": build_rejection(HOSTPORT)})).status.hostports[0] == first


def test_a_rejected_certificate_is_shown_at_the_hostports_that_it_covers() -> None:
    status = decide(Reports(1, trial=build_rejection("cert_1"))).status

    error = f"Envoy rejected a certificate: {SENTENCE}"
    missing = f"No TLS certificate of the account covers the host: upload one for {PROVED} or *.example.com. {error}"
    assert [(hostport.state, hostport.error) for hostport in status.hostports] == [("live", ""), ("refused", missing)]


@pytest.mark.parametrize(
    ("served", "state", "error"),
    [
        (replace(SERVED, hostports=("lost.example.com:443",)), "unproved", "The account has not proved the domain"),
        (replace(SERVED, hostports=("a.b.tunnels.localhost:443",)), "refused", "No TLS certificate covers the host"),
        (replace(SERVED, error="Its records cannot be understood."), "refused", "Its records cannot be understood."),
        (
            replace(edge(route(), authorities=["ca_2"]), revision=7),
            "refused",
            "A certificate authority that the module mutual_tls",
        ),
    ],
)
def test_the_records_alone_can_refuse(served: ServedEdge, state: State, error: str) -> None:
    status = decide(Reports(1), served).status

    assert {
        status.state,
        *(hostport.state for hostport in status.hostports),
        *(route.state for route in status.routes),
    } == {state}
    assert status.hostports[0].error.startswith(error)


def test_an_edge_without_hostports_waits() -> None:
    assert decide(Reports(1, trial=TRIED), replace(SERVED, hostports=())) == ReportedStatus(NO_STATUS)
