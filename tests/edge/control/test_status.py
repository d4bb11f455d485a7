"""The status of an edge, of how it stands and what Envoy has answered: its whole table."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from chalicelib.model.edges.edge_status import BackendStatus, EdgeStatus, HostportStatus, RouteStatus, State
from chalicelib.model.edges.served import ServedEdge
from edge.control import status
from edge.envoy.ads.catalog import Answer, Name
from edge.envoy.resources import Key
from edge.serving.standing import PlannedHostport, PlannedRoute, PlannedStatus

EDGE, ROUTE, CERTIFICATE, OTHER = (
    f"{prefix}_{place:027}" for place, prefix in enumerate(("edghts", "edghtsrt", "cert", "cert"))
)
HOSTPORT = "shop.example.com:443"
LISTENER, ROUTES = Key("listener", f"edge/{EDGE}/{CERTIFICATE}"), Key("routes", f"edge/{EDGE}")
END = datetime(2027, 1, 1, tzinfo=UTC)
EARLY, LATE = (datetime(2026, 11, 22, 12, minute, tzinfo=UTC) for minute in (0, 5))
STANDING = PlannedStatus(
    ServedEdge("acct_a", EDGE, 7, (HOSTPORT,)),
    (PlannedHostport(HOSTPORT, "live", "", CERTIFICATE, END, frozenset({LISTENER, ROUTES})),),
    (PlannedRoute(ROUTE, "live", "", frozenset({ROUTES})),),
    (("bkdtg_1", 2),),
)
LIVE = EdgeStatus(
    "live",
    7,
    "2026-11-22T12:00:00Z",
    (HostportStatus(HOSTPORT, "live", "2026-11-22T12:00:00Z", "", CERTIFICATE, "2027-01-01T00:00:00Z"),),
    (RouteStatus(ROUTE, "live", "2026-11-22T12:00:00Z"),),
    (BackendStatus("bkdtg_1", 2),),
)
REFUSED = PlannedHostport(HOSTPORT, "refused", "No certificate.")
UNPROVED = PlannedHostport(HOSTPORT, "unproved", "Not proved.")


def of(standing: PlannedStatus, before: EdgeStatus | None = None, **answers: Any) -> status.NextStatus:
    """Return the status where Envoy has answered with a sentence, "" for yes, None for nothing yet."""
    found = {"listener": answers.get("listener", ""), "routes": answers.get("routes", "")}

    def answered(name: Name) -> Answer | None:
        error = found[name.kind]
        return None if error is None else Answer("1", error)

    return status.compute(standing, answered, before, LATE if before else EARLY)


def states(told: status.NextStatus) -> tuple[State, State, State]:
    return told.status.state, told.status.hostports[0].state, told.status.routes[0].state


def test_what_envoy_has_taken_is_live() -> None:
    assert of(STANDING) == status.NextStatus(LIVE, is_settled=True)


@pytest.mark.parametrize(
    ("answers", "expected", "is_settled"),
    [
        ({"listener": None}, ("waiting", "waiting", "waiting"), False),
        ({"routes": None}, ("waiting", "waiting", "waiting"), False),
        ({"listener": "too large"}, ("refused", "refused", "refused"), True),
        ({"listener": "too large", "routes": None}, ("refused", "refused", "waiting"), False),
        ({"routes": "bad"}, ("refused", "refused", "refused"), True),
    ],
)
def test_an_answer_decides_what_rests_on_it(
    answers: dict[str, str | None], expected: tuple[State, State, State], is_settled: bool
) -> None:
    told = of(STANDING, None, **answers)
    assert (states(told), told.is_settled) == (expected, is_settled)


@pytest.mark.parametrize(
    ("hostports", "route", "expected"),
    [
        ((REFUSED,), "live", "refused"),
        ((UNPROVED,), "live", "unproved"),
        ((REFUSED, UNPROVED), "live", "refused"),
        ((*STANDING.hostports, UNPROVED), "live", "partly"),
        (STANDING.hostports, "refused", "partly"),
        (STANDING.hostports, "live", "live"),
    ],
)
def test_an_edge_is_in_the_state_of_its_parts(
    hostports: tuple[PlannedHostport, ...], route: Any, expected: State
) -> None:
    standing = replace(STANDING, hostports=hostports, routes=(PlannedRoute(ROUTE, route, ""),))
    assert of(standing).status.state == expected


def test_an_edge_without_a_live_host_has_no_live_route() -> None:
    standing = replace(STANDING, hostports=(UNPROVED,), routes=(PlannedRoute(ROUTE, "live"),))
    assert states(of(standing)) == ("unproved", "unproved", "unproved")


def test_the_time_of_a_state_stays_while_it_lasts() -> None:
    assert of(STANDING, LIVE).status == LIVE
    other = replace(STANDING, edge=replace(STANDING.edge, revision=8), backends=())
    late = "2026-11-22T12:05:00Z"
    assert of(other, LIVE).status == replace(LIVE, revision=8, at=late, backends=())
    refused = of(STANDING, LIVE, listener="no").status
    assert (refused.at, refused.hostports[0].since, refused.routes[0].since) == (late, late, late)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (f"Error adding/updating listener(s) {LISTENER.name}: Only RSA 2048.\n", "Only RSA 2048."),
        ("cannot read /var/lib/edge/key.pem: it is bad", "cannot read a file: it is bad"),
        (f"duplicate {OTHER} beside {CERTIFICATE}", f"duplicate … beside {CERTIFICATE}"),
        ("acct_2CmnlqtOcEPvUD8HzuC4r6lM6Iq has it", "… has it"),
        ("a\x1b[31m path_prefix /a", "a[31m path_prefix /a"),
        ("x" * 1000, "x" * 400),
    ],
)
def test_a_sentence_of_the_engine_names_no_file_and_nobody_else(said: str, told: str) -> None:
    assert of(STANDING, listener=said).status.hostports[0].error == told
