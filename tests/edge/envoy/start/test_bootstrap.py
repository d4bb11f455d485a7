"""The configuration with which Envoy starts."""

from edge.envoy.start import overload
from edge.envoy.start.bootstrap import build_bootstrap
from edge.process.settings import Limits
from tests.edge.envoy import messages
from tests.edge.envoy.values import SETTINGS


def test_envoy_is_started_with_where_control_is_and_its_limits() -> None:
    bootstrap = build_bootstrap(SETTINGS)
    backoff = {"retry_back_off": {"base_interval": "0.100s", "max_interval": "1s"}}
    assert bootstrap["dynamic_resources"]["ads_config"] == {
        "api_type": "DELTA_GRPC",
        "transport_api_version": "V3",
        "set_node_on_first_message_only": True,
        "grpc_services": [{"envoy_grpc": {"cluster_name": "control", "retry_policy": backoff}}],
    }
    address = bootstrap["static_resources"]["clusters"][0]["load_assignment"]["endpoints"][0]["lb_endpoints"][0]
    assert address == {"endpoint": {"address": {"pipe": {"path": "discovery.sock"}}}}
    assert bootstrap["admin"] == {"address": {"pipe": {"path": "admin.sock", "mode": 0o600}}}
    assert bootstrap["layered_runtime"]["layers"][0]["static_layer"] == {
        "envoy.reloadable_features.enable_send_rst_on_user_space_socket": False,
        "re2.max_program_size.error_level": 10000,
        "envoy.resource_limits.listener.http.connection_limit": 2000,
        "envoy.resource_limits.listener.https.connection_limit": 22_000,
    }
    prefixes = ("cluster.name.", "http.https.rds.", "sds.", "extension_config_discovery.")
    uncounted = [{"prefix": prefix} for prefix in prefixes]
    assert bootstrap["stats_config"] == {"stats_matcher": {"exclusion_list": {"patterns": uncounted}}}
    limits = Limits(max_connections=7, max_heap_mib=3)
    connections, heap, _ = messages.to_json(overload.build_manager(limits))["resource_monitors"]
    assert connections["typed_config"]["max_active_downstream_connections"] == "4007"
    assert heap["typed_config"]["max_heap_size_bytes"] == str(3 << 20)
