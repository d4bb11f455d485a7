"""Envoy's routes of an edge. Pure."""

import re
from collections.abc import Iterator, Sequence

from chalicelib.model.edges.served import ServedRoute
from chalicelib.model.serving import pages
from chalicelib.model.serving.edge_plans import Plan, RouteTarget
from chalicelib.model.serving.streams import is_group
from edge.envoy import clusters, parts, routes, v3
from edge.envoy.filters import kept_headers, sign_in, user_agents
from edge.envoy.routes import EVERY_PATH, NO_TIMEOUT

MISDIRECTED = routes.build_page_host("misdirected", "*", page=pages.MISDIRECTED)
_NO_ROUTE = v3.Route(match=EVERY_PATH, direct_response=parts.respond(pages.NO_ROUTE))
_NOT_GRPC = v3.HeaderMatcher(
    name="content-type",
    string_match=parts.regex(r"application/grpc(?:\+\C*)?"),
    treat_missing_header_as_empty=True,
    invert_match=True,
)
_RETRY = v3.RetryPolicy(
    retry_on="connect-failure,reset-before-request",
    num_retries=parts.number(2),
    retry_host_predicate=[
        v3.RetryPolicy.RetryHostPredicate(
            name="envoy.retry_host_predicates.previous_hosts", typed_config=parts.pack(v3.PreviousHostsPredicate())
        )
    ],
    host_selection_retry_max_attempts=3,
)
# Paths that an upstream may normalize to another path (RFC 3986, 6.2.2): with //, dot segments, \\, parameters (;), or
# percent-encoded control characters, unreserved characters, slashes, semicolons and percent signs.
_AMBIGUOUS = (
    r"(?i)[^?]*(?://|/\.\.?(?:[/?]|$)|[\\;]"
    r"|%(?:[01].|2[def]|25[0-9a-f]{2}|3[0-9b]|4[1-9a-f]|5[0-9acf]|6[1-9a-f]|7[0-9aef])).*"
)
_AMBIGUOUS_REFUSAL = v3.Route(
    match=v3.RouteMatch(prefix="/", headers=[v3.HeaderMatcher(name=":path", string_match=parts.regex(_AMBIGUOUS))]),
    direct_response=parts.respond(pages.PATH),
)


def build_edge_hosts(plan: Plan) -> list[v3.VirtualHost]:
    """Return the virtual hosts of an edge. Other hosts get 421."""
    hosts = [_virtual_host(plan)] if plan.certificates else []
    if plan.served_elsewhere:
        hosts.append(routes.build_page_host("elsewhere", *plan.served_elsewhere, page=pages.MISDIRECTED))
    return [*hosts, MISDIRECTED]


def _virtual_host(plan: Plan) -> v3.VirtualHost:
    edge, names = plan.edge, list(plan.certificates)
    return v3.VirtualHost(
        name=edge.id,
        domains=names,
        metadata=parts.metadata(account=edge.account, edge=edge.id),
        routes=sign_in.complete_routes(plan, _list_routes(plan, names)),
        retry_policy=_RETRY,
        typed_per_filter_config={
            **kept_headers.build_host_config(edge.keep_headers),
            **sign_in.build_host_config(plan),
        },
    )


def _list_routes(plan: Plan, names: Sequence[str]) -> list[v3.Route]:
    return [*_deep_host_refusals(names), *_challenge_refusals(plan.unreserved), *_served(plan), _NO_ROUTE]


def _served(plan: Plan) -> Iterator[v3.Route]:
    if plan.page:
        yield v3.Route(match=EVERY_PATH, direct_response=parts.respond(plan.page))
        return
    yield from sign_in.build_service_routes(plan)
    if len(plan.targets) > 1 and any(target.restricts_visitors for target in plan.targets):
        yield _AMBIGUOUS_REFUSAL  # another route would match, but the upstream might read the restricted path
    for target in plan.targets:
        yield from sign_in.guard_target(target, _routes(plan, target))


def _deep_host_refusals(names: Sequence[str]) -> Iterator[v3.Route]:
    """Yield the refusal of hosts two or more labels below a wildcard, which Envoy's wildcard matches."""
    if any(name.startswith("*.") for name in names):
        other = v3.HeaderMatcher(name=":authority", string_match=_any_host(names), invert_match=True)
        match = v3.RouteMatch(prefix="/", headers=[other])
        yield v3.Route(match=match, direct_response=parts.respond(pages.MISDIRECTED))


def _challenge_refusals(names: Sequence[str]) -> Iterator[v3.Route]:
    """Yield the response to challenges of certificate authorities for some hosts."""
    if names:
        yield routes.build_challenge_refusal(v3.HeaderMatcher(name=":authority", string_match=_any_host(names)))


def _any_host(names: Sequence[str]) -> v3.StringMatcher:
    """Return the matcher of some hosts, and of hosts directly below a wildcard host."""
    hosts = "|".join(re.escape(name).replace(r"\*", "[^.]+", 1) for name in names)
    return parts.regex(f"(?i)(?:{hosts})(?::[0-9]*)?")


def _routes(plan: Plan, target: RouteTarget) -> Iterator[v3.Route]:
    """Yield Envoy's routes for a route of the edge. The last one refuses all remaining requests.

    Envoy checks header conditions before the path. With the path as the first of them, a request does not pay for the
    filters of all other routes.
    """
    metadata, rules = parts.metadata(route=target.route.id), target.route.modules.user_agent_filter
    if rules and not target.page:
        long = _match(target.route, _path_condition(target.route), *user_agents.TOO_LONG)
        yield v3.Route(match=long, metadata=metadata, direct_response=parts.respond(pages.LONG_USER_AGENT))
    if not target.page:
        for headers in user_agents.build_passing(rules) if rules else [[]]:
            for match, action in _actions(plan, target, headers):
                yield v3.Route(match=match, metadata=metadata, route=action)
    refusal = parts.respond(target.page or pages.USER_AGENT)
    yield v3.Route(match=_match(target.route), metadata=metadata, direct_response=refusal)


def _match(route: ServedRoute, *headers: v3.HeaderMatcher) -> v3.RouteMatch:
    if route.match_type == "exact_path":
        return v3.RouteMatch(path=route.match, headers=headers)
    return v3.RouteMatch(prefix=route.match, headers=headers)


def _path_condition(route: ServedRoute) -> v3.HeaderMatcher:
    if route.match_type == "exact_path":
        return v3.HeaderMatcher(name=":path", string_match=parts.regex(rf"{re.escape(route.match)}(?:\?\C*)?"))
    return v3.HeaderMatcher(name=":path", string_match=v3.StringMatcher(prefix=route.match))


def _actions(
    plan: Plan, target: RouteTarget, headers: Sequence[v3.HeaderMatcher]
) -> Iterator[tuple[v3.RouteMatch, v3.RouteAction]]:
    """Yield the match and the action, for gRPC requests and for others.

    Envoy checks conditions in order. A gRPC request must not run the patterns of a filter twice.
    """
    upstreams = list(_upstreams(plan, target.online))
    at = [_path_condition(target.route)] if headers else []
    has_groups = any(is_group(id) for id, _ in target.online)
    if has_groups:
        grpc = _match(target.route, *at, *headers)
        grpc.grpc.SetInParent()
        yield grpc, _action([(clusters.http2_name(name), weight) for name, weight in upstreams])
    others = [_NOT_GRPC] if headers and has_groups else []
    yield _match(target.route, *at, *others, *headers), _action(upstreams)


def _upstreams(plan: Plan, weights: Sequence[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    for id, weight in weights:
        yield clusters.edge_group_name(plan, id) if is_group(id) else clusters.response_name(id), weight


def _action(upstreams: Sequence[tuple[str, int]]) -> v3.RouteAction:
    if len(upstreams) == 1:
        return v3.RouteAction(cluster=upstreams[0][0], timeout=NO_TIMEOUT)
    shares = [v3.WeightedCluster.ClusterWeight(name=name, weight=parts.number(weight)) for name, weight in upstreams]
    return v3.RouteAction(weighted_clusters=v3.WeightedCluster(clusters=shares), timeout=NO_TIMEOUT)
