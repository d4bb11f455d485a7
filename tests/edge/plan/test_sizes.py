"""The estimated memory of a name. `python -m bench edge_sizes` compares it with Envoy."""

import pytest

from chalicelib.model.edges.backends import HttpResponse, TunnelGroup
from chalicelib.model.edges.modules import UserAgentModule
from chalicelib.model.edges.served import Modules, ServedBackend, ServedEdge, ServedRoute
from chalicelib.model.serving.edge_plans import Plan, PlannedHost, RouteTarget
from edge.plan import sizes
from edge.plan.names import NamePlan

_BODY = "x" * 16384
_WORDS = UserAgentModule(deny=["x" * 500] * 9)
_BACKENDS = {
    "small": ServedBackend("a", "small", HttpResponse(body="hello")),
    "large": ServedBackend("a", "large", HttpResponse(headers={"name": "value"}, body=_BODY)),
    "group": ServedBackend("a", "group", TunnelGroup(labels={"a": "b"})),
}


def _plan(routes: int, backends: tuple[str, ...], rules: UserAgentModule | None = None) -> NamePlan:
    route = ServedRoute("r", "path_prefix", "/", Modules(user_agent_filter=rules))
    target = RouteTarget(route, tuple((id, 1) for id in backends))
    host = PlannedHost("x.example", "live", certificate="cert_1")
    edge = Plan(ServedEdge("a", "edghts_1", 1, ("x.example:443",)), (host,), targets=(target,) * routes)
    return NamePlan("x.example", "a", "cert_1", edge=edge)


@pytest.mark.parametrize(
    ("plan", "kib"),
    [
        (NamePlan("x.example", "a", refusal="unknown"), 1),
        (_plan(1, ("small",)), 120),
        (_plan(1, ("large",)), 208),
        (_plan(50, ("small",)), 463),
        (_plan(1, ("group",)), 154),
        (_plan(1, ("unknown",)), 154),
        (_plan(1, ("small", "group")), 230),
        (_plan(1, ("small",), _WORDS), 279),
    ],
)
def test_a_name_takes_what_its_routes_and_backends_take(plan: NamePlan, kib: int) -> None:
    assert sizes.estimate(plan, _BACKENDS) == kib
