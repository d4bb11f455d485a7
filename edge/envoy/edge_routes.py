"""Builds Envoy's routes of an edge. This file does no I/O."""

import re
from collections.abc import Iterator, Sequence

from chalicelib.model.edges.modules import circuit_breaker, user_agent_filter
from chalicelib.model.edges.served import ServedRoute
from chalicelib.model.serving import pages
from chalicelib.model.serving.edge_plans import Plan, RouteTarget
from chalicelib.model.serving.streams import is_group
from edge.envoy import clusters, parts, routes, v3
from edge.envoy.filters import kept_headers, route_modules, sign_in, user_agents, visitor_addresses
from edge.envoy.routes import EVERY_PATH

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


def add_edge_hosts(config: v3.RouteConfiguration, plan: Plan) -> None:
    """Add the virtual hosts of an edge."""
    if plan.certificates:
        _add_host(config, plan)
    if plan.served_elsewhere:
        elsewhere = routes.build_page_host("elsewhere", *plan.served_elsewhere, page=pages.MISDIRECTED)
        if plan.requires_sign_in:
            sign_in.exempt_host(elsewhere)
        config.virtual_hosts.append(elsewhere)


def _add_host(config: v3.RouteConfiguration, plan: Plan) -> None:
    edge, names, host = plan.edge, list(plan.certificates), config.virtual_hosts.add()
    host.name = edge.id
    host.domains.extend(names)
    parts.set_metadata(host.metadata, account=edge.account, edge=edge.id)
    host.retry_policy.CopyFrom(_RETRY)
    kept_headers.set_host_config(host, edge.keep_headers)
    visitor_addresses.restrict(host, plan.refusals)
    host.routes.extend([*_deep_host_refusals(names), *_challenge_refusals(plan.unreserved)])
    if plan.page:
        host.routes.add(match=EVERY_PATH, direct_response=parts.respond(plan.page))
    else:
        _add_targets(host, plan)
    # after a route for every path, Envoy would never reach _NO_ROUTE
    if not host.routes or host.routes[-1].match != EVERY_PATH:
        host.routes.append(_NO_ROUTE)
    if plan.requires_sign_in:
        sign_in.complete_host(host, plan)


def _add_targets(host: v3.VirtualHost, plan: Plan) -> None:
    if plan.requires_sign_in:
        host.routes.append(sign_in.build_service_route(plan))
    if len(plan.targets) > 1 and not all(target.admits_ambiguous_paths for target in plan.targets):
        # otherwise, the upstream could normalize an ambiguous path to the path of a restricted route
        host.routes.append(_AMBIGUOUS_REFUSAL)
    for target in plan.targets:
        first = len(host.routes)
        _add_routes(host, plan, target)
        if target.rule:
            sign_in.guard_routes(host, first, target.rule)


def _deep_host_refusals(names: Sequence[str]) -> Iterator[v3.Route]:
    """Yield a route that refuses hosts two or more labels below a wildcard. Envoy's wildcards match them too."""
    if any(name.startswith("*.") for name in names):
        other_hosts = v3.HeaderMatcher(name=":authority", string_match=_any_host(names), invert_match=True)
        match = v3.RouteMatch(prefix="/", headers=[other_hosts])
        yield v3.Route(match=match, direct_response=parts.respond(pages.MISDIRECTED))


def _challenge_refusals(names: Sequence[str]) -> Iterator[v3.Route]:
    """Yield a route that refuses HTTP-01 challenges for the hosts `names`. Without hosts, yield nothing."""
    if names:
        yield routes.build_challenge_refusal(v3.HeaderMatcher(name=":authority", string_match=_any_host(names)))


def _any_host(names: Sequence[str]) -> v3.StringMatcher:
    """Return a matcher of the hosts `names`. A wildcard among them matches the hosts directly below it."""
    hosts = "|".join(re.escape(name).replace(r"\*", "[^.]+", 1) for name in names)
    return parts.regex(f"(?i)(?:{hosts})(?::[0-9]*)?")


def _add_routes(host: v3.VirtualHost, plan: Plan, target: RouteTarget) -> None:
    """Add Envoy's routes for one route of the edge. The last of these refuses all remaining requests.

    Envoy checks header conditions before the path. So the path is also the first header condition. Otherwise, requests
    for other routes would run the header patterns of this route.
    """
    template, rules = _template(target.route), target.route.modules.get(user_agent_filter.MODULE)
    if rules and not target.page:
        long = _add_copy(host, template, _path_condition(target.route), *user_agents.TOO_LONG)
        long.direct_response.CopyFrom(parts.respond(pages.LONG_USER_AGENT))
    if not target.page:
        upstream_template = parts.copy(template)
        route_modules.configure(upstream_template, plan, target)
        for headers in user_agents.build_passing(rules) if rules else [[]]:
            _add_upstream_routes(host, plan, target, upstream_template, headers)
    if rules or target.page or not target.rule:  # if OAuth is the only restriction, no request would reach this refusal
        refusal = _add_copy(host, template)
        refusal.direct_response.CopyFrom(parts.respond(target.page or pages.USER_AGENT))


def _template(route: ServedRoute) -> v3.Route:
    """Return an Envoy route with the fields that all Envoy routes of one edge route have in common."""
    template = v3.Route()
    if route.match_type == "exact_path":
        template.match.path = route.match
    else:
        template.match.prefix = route.match
    parts.set_metadata(template.metadata, route=route.id)
    return template


def _add_copy(host: v3.VirtualHost, template: v3.Route, *conditions: v3.HeaderMatcher) -> v3.Route:
    route = host.routes.add()
    route.CopyFrom(template)
    if conditions:
        route.match.headers.extend(conditions)
    return route


def _path_condition(route: ServedRoute) -> v3.HeaderMatcher:
    if route.match_type == "exact_path":
        return v3.HeaderMatcher(name=":path", string_match=parts.regex(rf"{re.escape(route.match)}(?:\?\C*)?"))
    return v3.HeaderMatcher(name=":path", string_match=v3.StringMatcher(prefix=route.match))


def _add_upstream_routes(
    host: v3.VirtualHost, plan: Plan, target: RouteTarget, template: v3.Route, headers: Sequence[v3.HeaderMatcher]
) -> None:
    """Add the routes to upstreams: one for gRPC requests, and one for other requests.

    Envoy checks header conditions in order. In the second route, "not gRPC" comes before the User-Agent patterns, so a
    gRPC request that was refused by the patterns in the first route does not run them again.
    """
    upstreams = [(_cluster_name(plan, target.route, id), weight) for id, weight in target.online]
    path = [_path_condition(target.route)] if headers else []
    has_groups = any(is_group(id) for id, _ in target.online)
    if has_groups:
        grpc = _add_copy(host, template, *path, *headers)
        grpc.match.grpc.SetInParent()
        _set_action(grpc.route, [(clusters.http2_name(name), weight) for name, weight in upstreams])
    conditions = [_NOT_GRPC] if headers and has_groups else []
    _set_action(_add_copy(host, template, *path, *conditions, *headers).route, upstreams)


def _cluster_name(plan: Plan, route: ServedRoute, backend: str) -> str:
    if not is_group(backend):
        return clusters.response_name(backend)
    name = clusters.edge_group_name(plan, backend)
    return clusters.circuit_name(route.id, name) if circuit_breaker.MODULE.name in route.modules.values else name


def _set_action(action: v3.RouteAction, upstreams: Sequence[tuple[str, int]]) -> None:
    action.timeout.SetInParent()  # a duration of 0: no timeout
    if len(upstreams) == 1:
        action.cluster = upstreams[0][0]
    for name, weight in upstreams if len(upstreams) > 1 else []:
        action.weighted_clusters.clusters.add(name=name, weight=parts.number(weight))
