"""The filters of edges with OAuth: session tokens, the sign-in service, and the removal of its cookies.

Envoy verifies session tokens itself, and asks the sign-in service only about requests without a valid token. The keys
and audiences of tokens are in an extension resource, so that a change applies to open connections and closes none. This
file does no I/O.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from chalicelib.model.edges.sign_in_rules import SignInRule
from chalicelib.model.serving import pages
from chalicelib.model.serving.edge_plans import Plan
from edge.envoy import parts, v3
from edge.envoy.resources import Resource, encode
from edge.process.settings import Settings

CLUSTER = "sign-in"
ISSUER = "sign-in"
SERVICE_PATH = "/_service/"
HEADERS: Mapping[str, str] = {  # by claim of the session token: the header that tells the upstream the claim's value
    "provider": "tunnel-auth-provider",
    "user": "tunnel-auth-user-id",
    "email": "tunnel-auth-user-email",
    "name": "tunnel-auth-user-name",
}
_TIMEOUT = 15.0  # seconds for an answer of the sign-in service. Its exchange with an identity provider must take less
_MAX_LIFETIME = 60  # seconds of the longest lifetime that Envoy accepts in a session token
_CACHED = 500  # verified tokens that Envoy caches for each route
_METADATA = "envoy.filters.http.jwt_authn"
_PAYLOAD = "session"
_ASK, _RECORD, _RESTORE = "sign-in", "cookies/record", "cookies/restore"
_KEPT = "cookies"  # the metadata namespace for the cookies that the upstream receives
_OPTIONS = v3.HeaderMatcher(name=":method", string_match=v3.StringMatcher(exact="OPTIONS"))
_IS_SIGNED_IN = v3.MetadataMatcher(
    filter=_METADATA,
    path=[v3.MetadataMatcher.PathSegment(key=_PAYLOAD), v3.MetadataMatcher.PathSegment(key="iss")],
    value=v3.ValueMatcher(present_match=True),
    invert=True,
)
OWN_HOST = {"host": "sign-in"}  # Envoy sends these facts with a request to the sign-in service's own host
_NOT_ASKED = parts.pack(v3.ExtAuthzPerRoute(disabled=True))
_OTHERS = v3.HeaderValueOption(
    header=v3.HeaderValue(key="cookie", value=f"%DYNAMIC_METADATA({_KEPT}:{_KEPT})%"),
    append_action=v3.HeaderValueOption.ADD_IF_ABSENT,
)
_RESTORED = v3.HeaderMutationFilter(mutations=v3.Mutations(request_mutations=[v3.HeaderMutation(append=_OTHERS)]))


def build_ask_filter(settings: Settings) -> v3.HttpFilter:
    """Return the filter that asks the sign-in service about requests without a valid token.

    The filter applies even to a route without any configuration for sign-in, so such a route admits no visitors.
    """
    config = parts.authorization(CLUSTER, _TIMEOUT, settings)
    config.filter_enabled_metadata.CopyFrom(_IS_SIGNED_IN)
    return v3.HttpFilter(name=_ASK, typed_config=parts.pack(config))


def build_filters(plan: Plan, settings: Settings) -> list[v3.HttpFilter]:
    """Return the filters for the HTTP connection manager of an edge. Return [] if no route has OAuth."""
    if not plan.requires_sign_in:
        return []
    tokens = v3.ExtensionConfigSource(
        config_source=parts.ADS,
        # An empty configuration: until Envoy has the resource, each route answers 403.
        default_config=parts.pack(v3.JwtAuthentication()),
        type_urls=[f"type.googleapis.com/{v3.JwtAuthentication.DESCRIPTOR.full_name}"],
    )
    return [
        v3.HttpFilter(name=extension_name(plan.edge.id), config_discovery=tokens),
        build_ask_filter(settings),
        v3.HttpFilter(name=_RECORD, typed_config=parts.pack(v3.HeaderToMetadata())),
        v3.HttpFilter(name=_RESTORE, typed_config=parts.pack(_RESTORED)),
    ]


def extension_name(edge: str) -> str:
    """Return the name of an edge's extension resource. The filter for session tokens has the same name."""
    return f"sign-in/{edge}"


def build_extension(plan: Plan, public_keys: Sequence[Mapping[str, str]]) -> Resource:
    """Return the resource that verifies the session tokens of an edge's routes.

    Without keys, no token is valid, so Envoy asks the sign-in service about each request.
    """
    keys = json.dumps({"keys": [dict(key) for key in public_keys]})
    rules = [target.rule for target in plan.targets if target.rule]
    config = v3.JwtAuthentication(
        providers={rule.route: _provider(rule, keys) for rule in rules} if public_keys else {},
        requirement_map={rule.route: _requirement(rule, has_keys=bool(public_keys)) for rule in rules},
    )
    return encode(v3.TypedExtensionConfig(name=extension_name(plan.edge.id), typed_config=parts.pack(config)))


def complete_host(host: v3.VirtualHost, plan: Plan) -> None:
    """Complete the virtual host of an edge with OAuth.

    Requests to all routes lose the cookies of the sign-in service. Routes without OAuth require no sign-in.
    """
    rules = [target.rule for target in plan.targets if target.rule]
    names = sorted({name for rule in rules for name in (rule.session_cookie, rule.id_cookie, rule.login_cookie)})
    host.typed_per_filter_config[_RECORD].CopyFrom(_record_others(names))
    for route in host.routes:
        if _ASK not in route.typed_per_filter_config:
            route.typed_per_filter_config[_ASK].CopyFrom(_NOT_ASKED)


def exempt_host(host: v3.VirtualHost) -> None:
    """Exempt a virtual host from sign-in, because its HTTP connection manager can belong to an edge with OAuth."""
    host.typed_per_filter_config[_ASK].CopyFrom(_NOT_ASKED)


def build_own_host_route(page: str) -> v3.Route:
    """Return the route of the sign-in service's own host. Visitors get a page if the service does not answer."""
    return v3.Route(
        match=v3.RouteMatch(prefix="/"),
        direct_response=parts.respond(page),
        typed_per_filter_config=_asks(OWN_HOST),
    )


def _record_others(names: Sequence[str]) -> v3.Any:
    """Return the configuration that removes the Cookie header, and records its cookies except `names`.

    HTTP/1.1 clients can send two Cookie headers, which Envoy joins with a comma.
    """
    pattern = rf"(?:^|[;,])[ \t]*(?:{'|'.join(map(re.escape, names))})[ \t]*=[^;,]*"
    value = v3.HeaderToMetadata.KeyValuePair(
        metadata_namespace=_KEPT,
        key=_KEPT,
        type=v3.HeaderToMetadata.STRING,
        regex_value_rewrite=v3.RegexMatchAndSubstitute(pattern=v3.RegexMatcher(regex=pattern), substitution=""),
    )
    rule = v3.HeaderToMetadata.Rule(header="cookie", on_header_present=value, remove=True)
    return parts.pack(v3.HeaderToMetadata(request_rules=[rule]))


def build_service_route(plan: Plan) -> v3.Route:
    """Return the route for the paths of the sign-in service on an edge with OAuth. Only the service answers there."""
    return v3.Route(
        match=v3.RouteMatch(prefix=SERVICE_PATH),
        direct_response=parts.respond(pages.NO_ROUTE),
        typed_per_filter_config=_asks({"account": plan.edge.account, "edge": plan.edge.id}),
    )


def guard_routes(host: v3.VirtualHost, first: int, rule: SignInRule) -> None:
    """Require a session for the routes of a virtual host that forward to upstreams.

    Routes before the index `first` do not change.
    """
    routes = [parts.copy(route) for route in host.routes[first:]]
    del host.routes[first:]
    for route in routes:
        host.routes.extend(_guard(rule, route) if route.HasField("route") else [route])


def _guard(rule: SignInRule, route: v3.Route) -> Iterator[v3.Route]:
    if rule.options_passthrough:
        options = parts.copy(route)
        options.match.headers.append(_OPTIONS)
        yield options
    facts = {"account": rule.account, "edge": rule.edge, "route": rule.route, "aud": rule.audience}
    requirement = parts.pack(v3.JwtPerRoute(requirement_name=rule.route))
    route.typed_per_filter_config[extension_name(rule.edge)].CopyFrom(requirement)
    for name, config in _asks(facts).items():
        route.typed_per_filter_config[name].CopyFrom(config)
    route.route.max_stream_duration.max_stream_duration.CopyFrom(parts.seconds(rule.max_stream))
    yield route


def _asks(facts: Mapping[str, str]) -> dict[str, v3.Any]:
    """Return the configuration with which a route sends `facts` to the sign-in service."""
    return {_ASK: parts.check_settings(**facts)}


def _provider(rule: SignInRule, keys: str) -> v3.JwtProvider:
    return v3.JwtProvider(
        issuer=ISSUER,
        audiences=[rule.audience],
        from_cookies=[rule.session_cookie],
        local_jwks=parts.text(keys),
        payload_in_metadata=_PAYLOAD,
        clock_skew_seconds=1,
        require_expiration=True,
        max_lifetime=parts.seconds(_MAX_LIFETIME),
        jwt_cache_config=v3.JwtCacheConfig(jwt_cache_size=_CACHED),
        claim_to_headers=[v3.JwtClaimToHeader(header_name=header, claim_name=name) for name, header in HEADERS.items()],
    )


def _requirement(rule: SignInRule, *, has_keys: bool) -> v3.JwtRequirement:
    anyone = v3.JwtRequirement(allow_missing_or_failed=v3.Empty())
    if not has_keys:
        return anyone
    named = v3.JwtRequirement(provider_name=rule.route)
    return v3.JwtRequirement(requires_any=v3.JwtRequirementOrList(requirements=[named, anyone]))
