"""Envoy's configuration at its start: the address of control, and limits. Pure."""

from collections.abc import Mapping

from edge.envoy import json_parts as parts
from edge.envoy import overload, stats
from edge.envoy.resources import Json
from edge.process.settings import Settings

_OPTIONS = f"{parts.TYPE}.extensions.upstreams.http.v3.HttpProtocolOptions"
_RUNTIME: Mapping[str, Json] = {
    # Or Envoy resets the connection between two of its listeners at a close, and the end of a response is lost.
    "envoy.reloadable_features.enable_send_rst_on_user_space_socket": False,
    "re2.max_program_size.error_level": 10000,  # instead of 100: `claims` and large user agent filters need more
}
_RELEASED: Mapping[str, Json] = {"bytes_to_release": 32 << 20, "memory_release_interval": "1s"}  # free memory
# Counters of each name or certificate, which control knows itself. Creating them takes half of a start.
_UNCOUNTED: Json = [{"prefix": "cluster.name."}, {"prefix": "http.https.rds."}, {"prefix": "sds."}]


def build_bootstrap(settings: Settings) -> dict[str, Json]:
    """Return the configuration that Envoy reads when it starts."""
    internal = f"{parts.TYPE}.extensions.bootstrap.internal_listener.v3.InternalListener"
    return {
        "node": {"id": "edge", "cluster": "edge"},
        "admin": {"address": {"pipe": {"path": "admin.sock", "mode": 0o600}}},
        "bootstrap_extensions": [parts.extension("envoy.bootstrap.internal_listener", internal)],
        "layered_runtime": {"layers": [{"name": "edge", "static_layer": _runtime(settings)}]},
        "stats_config": {"stats_matcher": {"exclusion_list": {"patterns": _UNCOUNTED}}},
        "overload_manager": overload.build_manager(settings.limits),
        "memory_allocator_manager": _RELEASED,
        "dynamic_resources": {"ads_config": _control_source(), "lds_config": parts.ADS, "cds_config": parts.ADS},
        "static_resources": {
            "clusters": [_control_cluster(settings.discovery_socket.name), stats.build_cluster()],
            "listeners": [stats.build_listener()],
        },
    }


def _runtime(settings: Settings) -> Json:
    bounds = overload.connection_budgets(settings.limits)
    return {
        **_RUNTIME,
        **{f"envoy.resource_limits.listener.{name}.connection_limit": it for name, it in bounds.items()},
    }


def _control_source() -> Json:
    """Return how Envoy reaches control: one delta stream, reopened within a second if it breaks."""
    backoff: Json = {"base_interval": "0.1s", "max_interval": "1s"}
    service: Json = {"cluster_name": "control", "retry_policy": {"retry_back_off": backoff}}
    return {
        "api_type": "DELTA_GRPC",
        "transport_api_version": "V3",
        "set_node_on_first_message_only": True,  # otherwise each message repeats 60 KB about Envoy's extensions
        "grpc_services": [{"envoy_grpc": service}],
    }


def _control_cluster(socket: str) -> Json:
    http2: Json = {"@type": _OPTIONS, "explicit_http_config": {"http2_protocol_options": {}}}
    return {
        **parts.cluster("control", {"pipe": {"path": socket}}),
        "connect_timeout": "1s",
        "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": http2},
    }
