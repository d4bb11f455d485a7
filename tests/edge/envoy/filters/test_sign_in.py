"""What Envoy requires of requests to an edge with OAuth."""

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.served import ServedEdge, ServedRoute
from chalicelib.model.edges.sign_in_rules import SignInRule
from chalicelib.model.serving.edge_plans import Plan, PlannedHost, RouteTarget
from edge.envoy import edge_routes, v3
from edge.envoy.filters import sign_in
from edge.process.settings import Settings
from tests.edge.edge_modules import enabled

RULE = SignInRule("google", "digest", "acct_1", "edghts_1", "edghtsrt_aaaaaa", auth_check_interval=600)
KEY = {"kty": "EC", "kid": "k"}
ASKS = "sign-in"


def plan(*rules: SignInRule | None) -> Plan:
    """Return the plan of an edge with a route for each rule, which is open with None."""
    targets = []
    for number, rule in enumerate(rules):
        modules = enabled(backend=BackendModule(backend_id="bkdhr_1"), oauth=rule)
        route = ServedRoute(rule.route if rule else f"edghtsrt_{number}", "path_prefix", f"/{number}", modules)
        targets.append(RouteTarget(route, (("bkdhr_1", 1),), online=(("bkdhr_1", 1),), rule=rule))
    routes = tuple(target.route for target in targets)
    edge = ServedEdge("acct_1", "edghts_1", 1, ("app.example.com:443",), routes=routes)
    return Plan(edge, (PlannedHost("app.example.com", "live", certificate="cert_1"),), targets=tuple(targets))


def host(*rules: SignInRule | None) -> v3.VirtualHost:
    config = v3.RouteConfiguration()
    edge_routes.add_edge_hosts(config, plan(*rules))
    (virtual_host,) = config.virtual_hosts
    return virtual_host


def unpack(packed: Any, kind: Any) -> Any:
    message = kind()
    packed.Unpack(message)
    return MessageToDict(message, preserving_proto_field_name=True)


def test_an_edge_without_oauth_has_nothing_of_it() -> None:
    assert sign_in.build_filters(plan(None), Settings()) == []
    virtual_host = host(None)
    assert not virtual_host.typed_per_filter_config
    assert not any(route.typed_per_filter_config for route in virtual_host.routes)


def test_every_route_asks_or_says_that_it_does_not() -> None:
    virtual_host = host(RULE, None)
    configs = {
        (route.match.prefix, route.WhichOneof("action")): unpack(
            route.typed_per_filter_config[ASKS], v3.ExtAuthzPerRoute
        )
        for route in virtual_host.routes
    }
    off = {"disabled": True}
    ids = {"account": "acct_1", "edge": "edghts_1"}
    route = {"route": RULE.route, "aud": RULE.audience}
    assert configs == {
        ("/_service/", "direct_response"): {"check_settings": {"context_extensions": ids}},
        ("/0", "route"): {"check_settings": {"context_extensions": {**ids, **route}}},
        ("/1", "route"): off,
        ("/1", "direct_response"): off,
        ("/", "direct_response"): off,
    }
    (guarded,) = [route for route in virtual_host.routes if route.match.prefix == "/0" and route.HasField("route")]
    requirement = unpack(guarded.typed_per_filter_config["sign-in/edghts_1"], v3.JwtPerRoute)
    assert requirement == {"requirement_name": RULE.route}
    assert guarded.route.max_stream_duration.max_stream_duration.seconds == 600


def test_options_pass_before_the_route_that_asks() -> None:
    (routes,) = [[*host(SignInRule(**{**vars(RULE), "options_passthrough": True})).routes]]
    preflight, guarded = [route for route in routes if route.HasField("route")]
    assert [header.string_match.exact for header in preflight.match.headers if header.name == ":method"] == ["OPTIONS"]
    assert unpack(preflight.typed_per_filter_config[ASKS], v3.ExtAuthzPerRoute) == {"disabled": True}
    assert "disabled" not in unpack(guarded.typed_per_filter_config[ASKS], v3.ExtAuthzPerRoute)


def extension(keys: list[dict[str, str]]) -> Any:
    config = v3.TypedExtensionConfig.FromString(sign_in.build_extension(plan(RULE, None), keys).encoded)
    assert config.name == "sign-in/edghts_1"
    return unpack(config.typed_config, v3.JwtAuthentication)


def test_only_a_token_for_the_module_of_the_route_is_verified() -> None:
    authentication = extension([KEY])
    (provider,) = authentication["providers"].values()
    assert provider["issuer"] == "sign-in"
    assert provider["audiences"] == [RULE.audience]
    assert provider["from_cookies"] == [RULE.session_cookie]
    assert (provider["clock_skew_seconds"], provider["require_expiration"], provider["max_lifetime"]) == (
        1,
        True,
        "60s",
    )
    anyone: dict[str, Any] = {"allow_missing_or_failed": {}}
    required = {"requires_any": {"requirements": [{"provider_name": RULE.route}, anyone]}}
    assert authentication["requirement_map"] == {RULE.route: required}


def test_without_keys_no_token_is_valid() -> None:
    assert extension([]) == {"requirement_map": {RULE.route: {"allow_missing_or_failed": {}}}}


@pytest.mark.parametrize("part", ["failure_mode_allow", "with_request_body"])
def test_a_failure_closes_and_no_body_is_sent(part: str) -> None:
    ask_filter = unpack(sign_in.build_ask_filter(Settings()).typed_config, v3.ExtAuthz)
    assert part not in ask_filter
    assert ask_filter["status_on_error"] == {"code": "ServiceUnavailable"}
    assert ask_filter["filter_enabled_metadata"]["invert"]
