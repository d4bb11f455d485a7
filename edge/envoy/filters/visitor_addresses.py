"""Refuses HTTP requests by the visitor's address, as the configuration of a route. This file does no I/O.

A change of IP policies changes routes only, so it applies to the next requests of open connections and closes no
connection.
"""

from functools import lru_cache

from chalicelib.model.edges.modules.ip_restriction import IpRestrictionModule
from chalicelib.model.edges.policy_expressions import AnyOf, Condition
from chalicelib.model.serving.edge_plans import Plan, RouteTarget
from edge.envoy import matchers, parts, v3
from edge.envoy.matchers import OnMatch
from edge.plan import traffic_policies

_NAME = "addresses"
# Every HTTP connection manager has this filter. It acts only on routes that configure the filter.
FILTER = v3.HttpFilter(name=_NAME, typed_config=parts.pack(v3.HttpRBAC()), disabled=True)
_ACTIONS = {True: v3.RBAC.ALLOW, False: v3.RBAC.DENY}


def restrict(route: v3.Route | v3.VirtualHost, refusals: tuple[Condition, ...]) -> None:
    """Configure a virtual host or route to answer 403 if a condition is true for the visitor."""
    if refusals:
        route.typed_per_filter_config[_NAME].CopyFrom(_build_config(refusals))


def restrict_route(route: v3.Route, _module: IpRestrictionModule, _plan: Plan, target: RouteTarget) -> None:
    """Configure a route to answer 403 to visitors that IP policies of the route or of its edge refuse."""
    restrict(route, target.refusals)


@lru_cache(256)
def _build_config(refusals: tuple[Condition, ...]) -> v3.Any:
    """Return the configuration of a route that admits or refuses visitors by their network.

    An address outside all networks is refused.
    """
    clients = v3.Matcher(on_no_match=_decide(is_admitted=False))
    for verdict in traffic_policies.decide(AnyOf(refusals), 0, ""):
        clients.matcher_list.matchers.add(
            predicate=matchers.comes_from(map(str, verdict.networks), _NAME),
            on_match=_decide(is_admitted=verdict.is_admitted),
        )
    return parts.pack(v3.HttpRBACPerRoute(rbac=v3.HttpRBAC(matcher=clients)))


def _decide(*, is_admitted: bool) -> OnMatch:
    action = v3.RBACAction(name=_NAME, action=_ACTIONS[is_admitted])
    return OnMatch(action=v3.XdsExtensionConfig(name="action", typed_config=parts.pack(action)))
