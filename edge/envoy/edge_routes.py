"""Envoy's HTTP manager and routes of an edge. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence

from chalicelib.model.edges.served import ServedRoute
from chalicelib.model.serving import pages
from chalicelib.model.serving.edge_plans import Plan, RouteTarget
from chalicelib.model.serving.streams import is_group
from edge.envoy import clusters, routes
from edge.envoy import json_parts as parts
from edge.envoy.filters import kept_headers, user_agents
from edge.envoy.resources import Json

_MISDIRECTED: Json = {"status": 421, "body": {"inline_string": pages.MISDIRECTED}}
_NOT_GRPC: Json = {
    "name": "content-type",
    "string_match": {"safe_regex": {"regex": r"application/grpc(?:\+\C*)?"}},
    "treat_missing_header_as_empty": True,
    "invert_match": True,
}
_RETRY: Json = {
    "retry_on": "connect-failure,reset-before-request",
    "num_retries": 2,
    "retry_host_predicate": [
        parts.extension(
            "envoy.retry_host_predicates.previous_hosts",
            f"{parts.TYPE}.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate",
        )
    ],
    "host_selection_retry_max_attempts": 3,
}
# Paths that an upstream may normalize to another path (RFC 3986, 6.2.2): with //, dot segments, \\, parameters (;), or
# percent-encoded control characters, unreserved characters, slashes, semicolons and percent signs.
_AMBIGUOUS = (
    r"(?i)[^?]*(?://|/\.\.?(?:[/?]|$)|[\\;]"
    r"|%(?:[01].|2[def]|25[0-9a-f]{2}|3[0-9b]|4[1-9a-f]|5[0-9acf]|6[1-9a-f]|7[0-9aef])).*"
)
WORDS = {
    "account": "%METADATA(VIRTUAL_HOST:edge:account)%",
    "edge": "%METADATA(VIRTUAL_HOST:edge:edge)%",
    "route": "%METADATA(ROUTE:edge:route)%",
    "backend": "%UPSTREAM_CLUSTER_RAW%",
    "tunnel": "%UPSTREAM_HOST_NAME_WITHOUT_PORT%",
}
CLIENT = {
    "x-forwarded-client-cert": (
        'Hash=%DOWNSTREAM_PEER_FINGERPRINT_256%;Cert="%DOWNSTREAM_PEER_CERT%";Subject="%DOWNSTREAM_PEER_SUBJECT%"'
    )
}


def build_reply(flags: list[Json], status: int, text: str) -> Mapping[str, Json]:
    """Return Envoy's own response for some of its response flags."""
    return {
        "filter": {"response_flag_filter": {"flags": flags}},
        "status_code": status,
        "body": {"inline_string": text},
    }


REPLIES = (build_reply(["UH", "NC"], 503, pages.NO_TUNNELS), build_reply(["UO"], 503, pages.TOO_MANY))


def build_edge_hosts(plan: Plan) -> list[Json]:
    """Return the virtual hosts of an edge. Other hosts get 421."""
    hosts: list[Json] = [_virtual_host(plan)] if plan.certificates else []
    if plan.served_elsewhere:
        hosts.append(routes.build_page_host("elsewhere", *plan.served_elsewhere, status=421, text=pages.MISDIRECTED))
    return [*hosts, routes.build_page_host("misdirected", "*", status=421, text=pages.MISDIRECTED)]


def list_words(plan: Plan) -> list[str]:
    """Return an edge's own texts in its virtual hosts, as `words` of a resource."""
    ids = (it for target in plan.targets for it in (target.route.id, *(id for id, _ in target.online)))
    return [plan.edge.id, plan.edge.account, *plan.certificates, *dict.fromkeys(ids)]


def _virtual_host(plan: Plan) -> Json:
    edge = plan.edge
    targets = [route for target in plan.targets for route in _routes(plan, target)]
    served = [_page(plan.page)] if plan.page else [*_ambiguous_path_refusals(plan.targets), *targets]
    return {
        "name": edge.id,
        "domains": list(plan.certificates),
        "metadata": _metadata(account=edge.account, edge=edge.id),
        "routes": [
            *_deep_host_refusals(list(plan.certificates)),
            *_challenge_refusals(plan.unreserved),
            *served,
            _page(pages.NO_ROUTE),
        ],
        "retry_policy": _RETRY,
        **kept_headers.build_host_config(edge.keep_headers),
    }


def _deep_host_refusals(names: Sequence[str]) -> Iterator[Json]:
    """Yield the refusal of hosts two or more labels below a wildcard, which Envoy's wildcard matches."""
    if any(name.startswith("*.") for name in names):
        other: Json = {**_host_condition(names), "invert_match": True}
        yield {"match": {"prefix": "/", "headers": [other]}, "direct_response": _MISDIRECTED}


def _challenge_refusals(names: Sequence[str]) -> Iterator[Json]:
    """Yield the response to challenges of certificate authorities for some hosts."""
    if names:
        yield routes.build_challenge_refusal(_host_condition(names))


def _host_condition(names: Sequence[str]) -> dict[str, Json]:
    """Return the condition that a request is for some hosts, or directly below a wildcard host."""
    own = "|".join(re.escape(name).replace(r"\*", "[^.]+", 1) for name in names)
    return {"name": ":authority", "string_match": {"safe_regex": {"regex": f"(?i)(?:{own})(?::[0-9]*)?"}}}


def _ambiguous_path_refusals(targets: Sequence[RouteTarget]) -> Iterator[Json]:
    """Yield the refusal of paths that could bypass a route that restricts visitors.

    Another route would match them, but the upstream might read them as the restricted path.
    """
    if len(targets) > 1 and any(target.restricts_visitors for target in targets):
        path: Json = {"name": ":path", "string_match": {"safe_regex": {"regex": _AMBIGUOUS}}}
        yield {"match": {"prefix": "/", "headers": [path]}, "direct_response": _response(pages.PATH)}


def _routes(plan: Plan, target: RouteTarget) -> Iterator[Json]:
    """Yield Envoy's routes for a route of the edge. The last one refuses all remaining requests."""
    match: dict[str, Json] = {"path" if target.route.match_type == "exact_path" else "prefix": target.route.match}
    common = {"metadata": _metadata(route=target.route.id)}
    rules, at = target.route.modules.user_agent_filter, _path_condition(target.route)
    if rules and not target.page:
        long: Json = {**match, "headers": [at, *user_agents.build_too_long()]}
        yield {**common, "match": long, "direct_response": _response(pages.LONG_USER_AGENT)}
    if not target.page:
        for headers in user_agents.build_passing(rules) if rules else [[]]:
            for kind, own, action in _actions(plan, target.online):
                conditions = [at, *own, *headers] if headers else []
                yield {**common, "match": {**match, **kind, "headers": conditions}, "route": action}
    yield {**common, "match": match, "direct_response": _response(target.page or pages.USER_AGENT)}


def _path_condition(route: ServedRoute) -> Json:
    """Return the path of a route as a condition on headers.

    Envoy checks header conditions before the path. With the path as the first of them, a request does not pay for the
    filters of all other routes.
    """
    if route.match_type == "exact_path":
        regex = rf"{re.escape(route.match)}(?:\?\C*)?"
        return {"name": ":path", "string_match": {"safe_regex": {"regex": regex}}}
    return {"name": ":path", "string_match": {"prefix": route.match}}


def _actions(plan: Plan, weights: Sequence[tuple[str, int]]) -> Iterator[tuple[dict[str, Json], list[Json], Json]]:
    """Yield the match, the first header conditions and the action, for gRPC requests and for others.

    Envoy checks conditions in order. A gRPC request must not run the patterns of a filter twice.
    """
    has_groups = any(is_group(id) for id, _ in weights)
    if has_groups:
        action = _action([(clusters.http2_name(name), weight) for name, weight in _upstreams(plan, weights)])
        yield {"grpc": {}}, [], action
    yield {}, [_NOT_GRPC] if has_groups else [], _action(list(_upstreams(plan, weights)))


def _upstreams(plan: Plan, weights: Sequence[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    for id, weight in weights:
        yield clusters.edge_group_name(plan, id) if is_group(id) else clusters.response_name(id), weight


def _action(upstreams: Sequence[tuple[str, int]]) -> Json:
    if len(upstreams) == 1:
        return {"cluster": upstreams[0][0], "timeout": "0s"}
    shared: Json = [{"name": name, "weight": weight} for name, weight in upstreams]
    return {"weighted_clusters": {"clusters": shared}, "timeout": "0s"}


def _page(text: str) -> Json:
    return {"match": {"prefix": "/"}, "direct_response": _response(text)}


def _response(text: str) -> Json:
    return {"status": int(text[:3]), "body": {"inline_string": text}}


def _metadata(**words: str) -> Json:
    return {"filter_metadata": {"edge": words}}
