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
    routes = tuple(it.route for it in targets)
    edge = ServedEdge("acct_1", "edghts_1", 1, ("app.example.com:443",), routes=routes)
    return Plan(edge, (PlannedHost("app.example.com", "live", certificate="cert_1"),), targets=tuple(targets))


def host(*rules: SignInRule | None) -> v3.VirtualHost:
    config = v3.RouteConfiguration()
    edge_routes.add_edge_hosts(config, plan(*rules))
    (made,) = config.virtual_hosts
    return made


def unpack(packed: Any, kind: Any) -> Any:
    message = kind()
    packed.Unpack(message)
    return MessageToDict(message, preserving_proto_field_name=True)


def test_an_edge_without_oauth_has_nothing_of_it() -> None:
    assert sign_in.build_filters(plan(None), Settings()) == []
    made = host(None)
    assert not made.typed_per_filter_config
    assert not any(it.typed_per_filter_config for it in made.routes)


def test_every_route_asks_or_says_that_it_does_not() -> None:
    made = host(RULE, None)
    asked = {
        (it.match.prefix, it.WhichOneof("action")): unpack(it.typed_per_filter_config[ASKS], v3.ExtAuthzPerRoute)
        for it in made.routes
    }
    off = {"disabled": True}
    ids = {"account": "acct_1", "edge": "edghts_1"}
    route = {"route": RULE.route, "aud": RULE.audience}
    assert asked == {
        ("/_service/", "direct_response"): {"check_settings": {"context_extensions": ids}},
        ("/0", "route"): {"check_settings": {"context_extensions": {**ids, **route}}},
        ("/1", "route"): off,
        ("/1", "direct_response"): off,
        ("/", "direct_response"): off,
    }
    (guarded,) = [it for it in made.routes if it.match.prefix == "/0" and it.HasField("route")]
    requirement = unpack(guarded.typed_per_filter_config["sign-in/edghts_1"], v3.JwtPerRoute)
    assert requirement == {"requirement_name": RULE.route}
    assert guarded.route.max_stream_duration.max_stream_duration.seconds == 600


def test_options_pass_before_the_route_that_asks() -> None:
    (one,) = [[*host(SignInRule(**{**vars(RULE), "options_passthrough": True})).routes]]
    passed, guarded = [it for it in one if it.HasField("route")]
    assert [it.string_match.exact for it in passed.match.headers if it.name == ":method"] == ["OPTIONS"]
    assert unpack(passed.typed_per_filter_config[ASKS], v3.ExtAuthzPerRoute) == {"disabled": True}
    assert "disabled" not in unpack(guarded.typed_per_filter_config[ASKS], v3.ExtAuthzPerRoute)


def extension(keys: list[dict[str, str]]) -> Any:
    made = v3.TypedExtensionConfig.FromString(sign_in.build_extension(plan(RULE, None), keys).encoded)
    assert made.name == "sign-in/edghts_1"
    return unpack(made.typed_config, v3.JwtAuthentication)


def test_only_a_token_for_the_module_of_the_route_is_verified() -> None:
    found = extension([KEY])
    (provider,) = found["providers"].values()
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
    assert found["requirement_map"] == {RULE.route: required}


def test_without_keys_no_token_is_valid() -> None:
    assert extension([]) == {"requirement_map": {RULE.route: {"allow_missing_or_failed": {}}}}


@pytest.mark.parametrize("part", ["failure_mode_allow", "with_request_body"])
def test_a_failure_closes_and_no_body_is_sent(part: str) -> None:
    found = unpack(sign_in.build_ask_filter(Settings()).typed_config, v3.ExtAuthz)
    assert part not in found
    assert found["status_on_error"] == {"code": "ServiceUnavailable"}
    assert found["filter_enabled_metadata"]["invert"]
