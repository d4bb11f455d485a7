"""Envoy's routes of an edge. Pure."""

import re
from collections.abc import Iterator, Sequence

from envoy.config.route.v3.route_components_pb2 import (
    HeaderMatcher,
    RetryPolicy,
    Route,
    RouteAction,
    RouteMatch,
    VirtualHost,
    WeightedCluster,
)
from envoy.extensions.retry.host.previous_hosts.v3.previous_hosts_pb2 import PreviousHostsPredicate
from envoy.type.matcher.v3.string_pb2 import StringMatcher

from chalicelib.model.edges.served import ServedRoute
from chalicelib.model.serving import pages
from chalicelib.model.serving.edge_plans import Plan, RouteTarget
from chalicelib.model.serving.streams import is_group
from edge.envoy import clusters, parts, routes
from edge.envoy.filters import kept_headers, user_agents
from edge.envoy.routes import EVERY_PATH, NO_TIMEOUT

MISDIRECTED = routes.build_page_host("misdirected", "*", page=pages.MISDIRECTED)
_NO_ROUTE = Route(match=EVERY_PATH, direct_response=parts.respond(pages.NO_ROUTE))
_NOT_GRPC = HeaderMatcher(
    name="content-type",
    string_match=parts.regex(r"application/grpc(?:\+\C*)?"),
    treat_missing_header_as_empty=True,
    invert_match=True,
)
_RETRY = RetryPolicy(
    retry_on="connect-failure,reset-before-request",
    num_retries=parts.number(2),
    retry_host_predicate=[
        RetryPolicy.RetryHostPredicate(
            name="envoy.retry_host_predicates.previous_hosts", typed_config=parts.pack(PreviousHostsPredicate())
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
_AMBIGUOUS_REFUSAL = Route(
    match=RouteMatch(prefix="/", headers=[HeaderMatcher(name=":path", string_match=parts.regex(_AMBIGUOUS))]),
    direct_response=parts.respond(pages.PATH),
)


def build_edge_hosts(plan: Plan) -> list[VirtualHost]:
    """Return the virtual hosts of an edge. Other hosts get 421."""
    hosts = [_virtual_host(plan)] if plan.certificates else []
    if plan.served_elsewhere:
        hosts.append(routes.build_page_host("elsewhere", *plan.served_elsewhere, page=pages.MISDIRECTED))
    return [*hosts, MISDIRECTED]


def _virtual_host(plan: Plan) -> VirtualHost:
    edge, names = plan.edge, list(plan.certificates)
    return VirtualHost(
        name=edge.id,
        domains=names,
        metadata=parts.metadata(account=edge.account, edge=edge.id),
        routes=[*_deep_host_refusals(names), *_challenge_refusals(plan.unreserved), *_served(plan), _NO_ROUTE],
        retry_policy=_RETRY,
        typed_per_filter_config=kept_headers.build_host_config(edge.keep_headers),
    )


def _served(plan: Plan) -> Iterator[Route]:
    if plan.page:
        yield Route(match=EVERY_PATH, direct_response=parts.respond(plan.page))
        return
    if len(plan.targets) > 1 and any(target.restricts_visitors for target in plan.targets):
        yield _AMBIGUOUS_REFUSAL  # another route would match, but the upstream might read the restricted path
    for target in plan.targets:
        yield from _routes(plan, target)


def _deep_host_refusals(names: Sequence[str]) -> Iterator[Route]:
    """Yield the refusal of hosts two or more labels below a wildcard, which Envoy's wildcard matches."""
    if any(name.startswith("*.") for name in names):
        other = HeaderMatcher(name=":authority", string_match=_any_host(names), invert_match=True)
        match = RouteMatch(prefix="/", headers=[other])
        yield Route(match=match, direct_response=parts.respond(pages.MISDIRECTED))


def _challenge_refusals(names: Sequence[str]) -> Iterator[Route]:
    """Yield the response to challenges of certificate authorities for some hosts."""
    if names:
        yield routes.build_challenge_refusal(HeaderMatcher(name=":authority", string_match=_any_host(names)))


def _any_host(names: Sequence[str]) -> StringMatcher:
    """Return the matcher of some hosts, and of hosts directly below a wildcard host."""
    hosts = "|".join(re.escape(name).replace(r"\*", "[^.]+", 1) for name in names)
    return parts.regex(f"(?i)(?:{hosts})(?::[0-9]*)?")


def _routes(plan: Plan, target: RouteTarget) -> Iterator[Route]:
    """Yield Envoy's routes for a route of the edge. The last one refuses all remaining requests.

    Envoy checks header conditions before the path. With the path as the first of them, a request does not pay for the
    filters of all other routes.
    """
    metadata, rules = parts.metadata(route=target.route.id), target.route.modules.user_agent_filter
    if rules and not target.page:
        long = _match(target.route, _path_condition(target.route), *user_agents.TOO_LONG)
        yield Route(match=long, metadata=metadata, direct_response=parts.respond(pages.LONG_USER_AGENT))
    if not target.page:
        for headers in user_agents.build_passing(rules) if rules else [[]]:
            for match, action in _actions(plan, target, headers):
                yield Route(match=match, metadata=metadata, route=action)
    refusal = parts.respond(target.page or pages.USER_AGENT)
    yield Route(match=_match(target.route), metadata=metadata, direct_response=refusal)


def _match(route: ServedRoute, *headers: HeaderMatcher) -> RouteMatch:
    if route.match_type == "exact_path":
        return RouteMatch(path=route.match, headers=headers)
    return RouteMatch(prefix=route.match, headers=headers)


def _path_condition(route: ServedRoute) -> HeaderMatcher:
    if route.match_type == "exact_path":
        return HeaderMatcher(name=":path", string_match=parts.regex(rf"{re.escape(route.match)}(?:\?\C*)?"))
    return HeaderMatcher(name=":path", string_match=StringMatcher(prefix=route.match))


def _actions(
    plan: Plan, target: RouteTarget, headers: Sequence[HeaderMatcher]
) -> Iterator[tuple[RouteMatch, RouteAction]]:
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


def _action(upstreams: Sequence[tuple[str, int]]) -> RouteAction:
    if len(upstreams) == 1:
        return RouteAction(cluster=upstreams[0][0], timeout=NO_TIMEOUT)
    shares = [WeightedCluster.ClusterWeight(name=name, weight=parts.number(weight)) for name, weight in upstreams]
    return RouteAction(weighted_clusters=WeightedCluster(clusters=shares), timeout=NO_TIMEOUT)
