"""The HTTP manager of loaded names, whole."""

from chalicelib.model.edges.enforced import enforced_modules
from chalicelib.model.edges.headers import claims
from edge.envoy import v3
from edge.envoy.filters import blocking, kept_headers, passwords, route_modules, visitor_addresses
from edge.envoy.names import managers
from edge.envoy.names.managers import SCOPE_HEADER
from edge.process.settings import Settings
from tests.edge.envoy import messages
from tests.edge.envoy.values import SETTINGS, TYPE


def test_how_requests_are_treated() -> None:
    config = messages.to_json(managers.build_names_manager(SETTINGS))["typed_config"]
    access_log, filters = config.pop("access_log"), config.pop("http_filters")
    blocked, rate, addresses, *filters = filters
    of_modules = [messages.to_json(http_filter) for http_filter in route_modules.list_filters().values()]
    _recorder, client, memory, asking, verifying, *filters = (
        http_filter for http_filter in filters if http_filter not in of_modules
    )
    assert [http_filter["disabled"] for http_filter in (memory, asking, verifying)] == [True] * 3
    assert [memory, asking] == [
        messages.to_json(passwords.MEMORY),
        messages.to_json(passwords.build_filter(Settings())),
    ]
    assert blocked == messages.to_json(blocking.HTTP_FILTER)
    assert addresses == messages.to_json(visitor_addresses.FILTER)
    (limit,) = rate["typed_config"]["descriptors"]
    assert limit["token_bucket"] == {"max_tokens": 1500, "tokens_per_fill": 30, "fill_interval": "0.100s"}
    (of_whom,) = rate["typed_config"]["rate_limits"]
    assert of_whom["actions"] == [{"masked_remote_address": {"v4_prefix_mask_len": 32, "v6_prefix_mask_len": 64}}]
    *other_mappers, silent, late = config.pop("local_reply_config")["mappers"]
    assert [mapper["status_code"] for mapper in other_mappers] == [503, 503, 421, 404]
    scoped, early = config.pop("scoped_routes"), config.pop("early_header_mutation_extensions")
    assert scoped["scope_key_builder"]["fragments"] == [{"header_value_extractor": {"name": SCOPE_HEADER, "index": 0}}]
    removal, addition = early[0]["typed_config"]["mutations"]
    assert removal == {"remove": SCOPE_HEADER}
    assert addition["append"]["header"] == {"key": SCOPE_HEADER, "value": "%REQUESTED_SERVER_NAME%"}
    assert config == {
        "@type": f"{TYPE}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "https",
        "upgrade_configs": [{"upgrade_type": "websocket"}],
        "use_remote_address": True,
        "internal_address_config": {"cidr_ranges": [{"address_prefix": "255.255.255.255", "prefix_len": 32}]},
        "skip_xff_append": True,
        "generate_request_id": False,
        "server_header_transformation": "PASS_THROUGH",
        "max_request_headers_kb": 60,
        "request_headers_timeout": "15s",
        "stream_idle_timeout": "300s",
        "strip_trailing_host_dot": True,
        "common_http_protocol_options": {"idle_timeout": "300s", "max_connection_duration": "3600s"},
        "http_protocol_options": {"accept_http_10": True, "enable_trailers": True},
        "proxy_100_continue": True,
        "http2_protocol_options": {
            "max_concurrent_streams": 100,
            "initial_stream_window_size": 1 << 20,
            "initial_connection_window_size": 4 << 20,
        },
    }
    removed, *appended = client["typed_config"]["mutations"]["request_mutations"]
    assert removed == {"remove_on_match": {"key_matcher": {"safe_regex": {"regex": claims.REGEX}}}}
    add = "OVERWRITE_IF_EXISTS_OR_ADD"
    assert [(*header["append"]["header"].values(), header["append"]["append_action"]) for header in appended] == [
        ("connection", "upgrade", "OVERWRITE_IF_EXISTS"),
        ("x-forwarded-for", "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%", add),
        ("x-forwarded-host", "%REQ(:AUTHORITY)%", add),
        ("x-forwarded-proto", "https", add),
        ("x-forwarded-port", "8443", add),
    ]
    assert filters[0]["typed_config"]["on_request_headers"] == [
        {
            "object_key": "envoy.network.upstream_server_name",
            "format_string": {
                "text_format_source": {"inline_string": "%METADATA(VIRTUAL_HOST:edge:tunnel)%"},
                "omit_empty_values": True,
            },
            "skip_if_empty": True,
        }
    ]
    assert filters[1]["typed_config"]["suppress_envoy_headers"] is True
    assert [
        (mapper["status_code"], mapper["filter"]["response_flag_filter"]["flags"]) for mapper in (silent, late)
    ] == [
        (502, ["UF", "UC", "UH", "UR", "URX", "UO", "LR"]),
        (504, ["UT"]),
    ]
    (log,) = (logger["typed_config"] for logger in access_log)
    assert log["path"] == "/edge/access.log"
    words = log["log_format"]["json_format"]
    assert (words["path"], words["host"]) == ("%PATH(NQ):512%", "%REQ(:AUTHORITY):260%")


def test_an_edge_with_oauth_has_its_guards_replies_and_log() -> None:
    guard = v3.HttpFilter(name="guard")
    plain = messages.to_json(managers.build_names_manager(SETTINGS))["typed_config"]
    config = messages.to_json(managers.build_names_manager(SETTINGS, guards=[guard]))["typed_config"]
    *first, upstream_name, router = [
        http_filter for http_filter in plain["http_filters"] if http_filter["name"] != passwords.MEMORY.name
    ]
    assert config["http_filters"] == [*first, {"name": "guard"}, upstream_name, router]
    changing, *other_mappers = config["local_reply_config"]["mappers"]
    assert (changing["status_code"], other_mappers) == (503, plain["local_reply_config"]["mappers"])
    (log,), (plain_log,) = config["access_log"], plain["access_log"]
    fields = log["typed_config"]["log_format"]["json_format"]
    assert fields.pop("session") == "%TYPED_CEL('tunnel-auth-provider' in request.headers)%"
    assert log == plain_log


def test_the_filters_of_modules_that_restrict_visitors_are_first() -> None:
    manager = managers.build_names_manager(SETTINGS)
    names = [http_filter["name"] for http_filter in messages.to_json(manager)["typed_config"]["http_filters"]]
    of_modules = route_modules.list_filters()
    first = names.index(next(iter(of_modules.values())).name)
    assert names[first : first + len(of_modules) + 1] == [
        *(http_filter.name for http_filter in of_modules.values()),
        kept_headers.RECORDER.name,
    ]
    restricting = [
        module.restricts_visitors for name in of_modules for module in enforced_modules.EVERY if module.name == name
    ]
    assert restricting == sorted(restricting, reverse=True)
    assert {True, False} == {*restricting}
