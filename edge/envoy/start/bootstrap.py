"""Builds the configuration that Envoy reads when it starts. This file does no I/O.

It contains the address of control, and limits.
"""

from typing import Any

from google.protobuf import json_format

from edge.envoy import parts, v3
from edge.envoy.start import overload, stats
from edge.process.settings import ADMIN_SOCKET, DRAIN_TIMEOUT, Settings

# The runtime flag with this name is set to false. If the flag were true, Envoy would close connections between its own
# listeners by a reset, and a response could lose its last bytes.
_NO_RESET = "envoy.reloadable_features.enable_send_rst_on_user_space_socket"
# RE2 instructions of a regular expression. The default, 100, is too few for `claims` and user agent filters
_PROGRAM_SIZE = 10_000
# Each second, Envoy returns up to 32 MiB of unused memory to the operating system.
_RELEASE = v3.MemoryAllocatorManager(bytes_to_release=32 << 20, memory_release_interval=parts.seconds(1))
# Prefixes of counters that Envoy omits. Envoy would have these counters for each name, certificate and edge. They would
# take memory, and half of the time of a start. Control counts the same.
_UNCOUNTED = ("cluster.name.", "http.https.rds.", "sds.", "extension_config_discovery.")
_LISTENERS = parts.copy(parts.ADS)
# No timeout: after a timeout, Envoy would count as ready without listeners.
_LISTENERS.initial_fetch_timeout.CopyFrom(parts.seconds(0))


def build_bootstrap(settings: Settings) -> dict[str, Any]:
    """Return the configuration that Envoy reads when it starts, as JSON.

    The metadata contains the time limit of a drain, because Envoy's parent process does not have the settings.
    """
    internal = parts.pack(v3.InternalListener())
    uncounted = v3.ListStringMatcher(patterns=[v3.StringMatcher(prefix=prefix) for prefix in _UNCOUNTED])
    bootstrap = v3.Bootstrap(
        node=v3.Node(id="edge", cluster="edge", metadata=_metadata(settings)),
        admin=v3.Admin(address=v3.Address(pipe=v3.Pipe(path=settings.own_file(ADMIN_SOCKET).name, mode=0o600))),
        bootstrap_extensions=[v3.TypedExtensionConfig(name="envoy.bootstrap.internal_listener", typed_config=internal)],
        layered_runtime=v3.LayeredRuntime(layers=[v3.RuntimeLayer(name="edge", static_layer=_runtime(settings))]),
        stats_config=v3.StatsConfig(stats_matcher=v3.StatsMatcher(exclusion_list=uncounted)),
        overload_manager=overload.build_manager(settings.limits),
        memory_allocator_manager=_RELEASE,
        dynamic_resources=v3.Bootstrap.DynamicResources(
            ads_config=_control_source(), lds_config=_LISTENERS, cds_config=parts.ADS
        ),
        static_resources=v3.Bootstrap.StaticResources(
            clusters=[_control_cluster(settings.discovery_socket.name), stats.build_cluster(settings)],
            listeners=[stats.build_listener(settings)],
        ),
    )
    return json_format.MessageToDict(bootstrap, preserving_proto_field_name=True)


def _metadata(settings: Settings) -> v3.Struct:
    metadata = v3.Struct()
    metadata.update({DRAIN_TIMEOUT: settings.limits.drain_timeout})
    return metadata


def _runtime(settings: Settings) -> v3.Struct:
    runtime = v3.Struct()
    runtime.update({_NO_RESET: False, "re2.max_program_size.error_level": _PROGRAM_SIZE})
    bounds = overload.connection_budgets(settings.limits)
    runtime.update({f"envoy.resource_limits.listener.{name}.connection_limit": limit for name, limit in bounds.items()})
    return runtime


def _control_source() -> v3.ApiConfigSource:
    """Return Envoy's source of resources: one delta stream to control, reopened within a second if it breaks."""
    backoff = v3.BackoffStrategy(base_interval=parts.seconds(0.1), max_interval=parts.seconds(1))
    service = v3.GrpcService.EnvoyGrpc(cluster_name="control", retry_policy=v3.GrpcRetryPolicy(retry_back_off=backoff))
    return v3.ApiConfigSource(
        api_type=v3.ApiConfigSource.DELTA_GRPC,
        transport_api_version=v3.ApiVersion.V3,
        set_node_on_first_message_only=True,  # otherwise, each message would repeat 60 KB about Envoy's extensions
        grpc_services=[v3.GrpcService(envoy_grpc=service)],
    )


def _control_cluster(socket: str) -> v3.Cluster:
    http2 = v3.UpstreamProtocolOptions.ExplicitHttpConfig(http2_protocol_options=v3.Http2ProtocolOptions())
    options = parts.pack(v3.UpstreamProtocolOptions(explicit_http_config=http2))
    return v3.Cluster(
        name="control",
        type=v3.Cluster.STATIC,
        load_assignment=parts.assignment("control", v3.Address(pipe=v3.Pipe(path=socket))),
        connect_timeout=parts.seconds(1),
        typed_extension_protocol_options={"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options},
    )
