"""The estimated memory of a name. tests/live/edge/ondemand/test_sizes.py compares it with Envoy."""

from dataclasses import replace
from typing import Any

import pytest

from chalicelib.model.edges.backends import HttpResponse, TunnelGroup
from chalicelib.model.edges.modules.user_agent_filter import UserAgentModule
from chalicelib.model.edges.served import ServedBackend, ServedEdge, ServedRoute
from chalicelib.model.edges.sign_in_rules import SignInRule
from chalicelib.model.serving.edge_plans import Plan, PlannedHost, RouteTarget
from edge.plan import sizes
from edge.plan.names import NamePlan
from tests.edge.edge_modules import enabled
from tests.edge.plan.worlds import A, certificate, records_of, tunnel

_BODY = "x" * 16384
_WORDS = UserAgentModule(deny=["x" * 500] * 9)
_EITHER = UserAgentModule(allow=["x" * 50], deny=["y" * 50])
_GROUP, _CROWD = "bkdtg_small", "bkdtg_crowd"
_RECORDS = records_of(
    ServedBackend(A, "bkdhr_small", HttpResponse(body="hello")),
    ServedBackend(A, "bkdhr_large", HttpResponse(headers={"name": "value"}, body=_BODY)),
    ServedBackend(A, _GROUP, TunnelGroup(labels={"a": "b"})),
    ServedBackend(A, _CROWD, TunnelGroup(labels={"app": "crowd"})),
    *(tunnel(id=f"tn_{number}", app="crowd") for number in range(100)),
    certificate("cert_1", "x.example"),
    replace(certificate("cert_long", "x.example"), chain="x" * (64 << 10)),
)


def _plan(
    routes: int,
    backends: tuple[str, ...],
    rules: UserAgentModule | None = None,
    match: tuple[str, str] = ("path_prefix", "/"),
    certificate: str = "cert_1",
    **modules: Any,
) -> NamePlan:
    weights = tuple((id, 1) for id in backends)
    target = RouteTarget(ServedRoute("r", *match, enabled(user_agent_filter=rules, **modules)), weights, online=weights)
    host = PlannedHost("x.example", "live", certificate=certificate)
    edge = Plan(ServedEdge(A, "edghts_1", 1, ("x.example:443",)), (host,), targets=(target,) * routes)
    return NamePlan("x.example", A, certificate, edge=edge)


@pytest.mark.parametrize(
    ("plan", "kib"),
    [
        (NamePlan("x.example", A, refusal="unknown"), 1),
        (_plan(1, ("bkdhr_small",)), 120),
        (_plan(1, ("bkdhr_large",)), 208),
        (_plan(50, ("bkdhr_small",)), 463),
        (_plan(50, ("bkdhr_small",), oauth=SignInRule("github", "digest")), 463 + 425 + 50 * 10),
        (_plan(1, (_GROUP,)), 158),
        (_plan(1, ("bkdtg_unknown",)), 158),
        (_plan(1, ("bkdhr_small", _GROUP)), 235),
        (_plan(1, ("bkdhr_small",), _WORDS), 279),
        (_plan(1, (_CROWD,)), 408),
        (_plan(1, ("bkdhr_small",), certificate="cert_long"), 526),
        (_plan(100, ("bkdhr_small",) * 100), 6813),
        (_plan(1, ("bkdhr_small",), _EITHER), 150),
        (_plan(1, ("bkdhr_small", _GROUP), _EITHER), 270),
        (_plan(1, ("bkdhr_small",), None, ("path_prefix", "/" * 1024)), 124),
        (_plan(1, ("bkdhr_small",), _EITHER, ("path_prefix", "/" * 1024)), 158),
        (_plan(1, ("bkdhr_small",), _EITHER, ("exact_path", "/" * 1024)), 338),
    ],
)
def test_a_name_takes_what_its_routes_and_backends_take(plan: NamePlan, kib: int) -> None:
    assert sizes.estimate(plan, _RECORDS) == kib
