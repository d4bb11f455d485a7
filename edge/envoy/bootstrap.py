"""Envoy's configuration at its start: the address of control, and limits. Pure."""

from typing import Any

from envoy.config.bootstrap.v3.bootstrap_pb2 import (
    Admin,
    Bootstrap,
    LayeredRuntime,
    MemoryAllocatorManager,
    RuntimeLayer,
)
from envoy.config.cluster.v3.cluster_pb2 import Cluster
from envoy.config.core.v3.address_pb2 import Address, Pipe
from envoy.config.core.v3.backoff_pb2 import BackoffStrategy
from envoy.config.core.v3.base_pb2 import Node, RetryPolicy
from envoy.config.core.v3.config_source_pb2 import ApiConfigSource, ApiVersion
from envoy.config.core.v3.extension_pb2 import TypedExtensionConfig
from envoy.config.core.v3.grpc_service_pb2 import GrpcService
from envoy.config.core.v3.protocol_pb2 import Http2ProtocolOptions
from envoy.config.metrics.v3.stats_pb2 import StatsConfig, StatsMatcher
from envoy.extensions.bootstrap.internal_listener.v3.internal_listener_pb2 import InternalListener
from envoy.extensions.upstreams.http.v3.http_protocol_options_pb2 import HttpProtocolOptions
from envoy.type.matcher.v3.string_pb2 import ListStringMatcher, StringMatcher
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct

from edge.envoy import overload, parts, stats
from edge.process.settings import Settings

# Without it Envoy resets the connection between two of its listeners at a close, and the end of a response is lost.
_NO_RESET = "envoy.reloadable_features.enable_send_rst_on_user_space_socket"
_PROGRAM_SIZE = 10_000  # of an expression; with the default of 100, `claims` and user agent filters would be rejected
_RELEASED = MemoryAllocatorManager(bytes_to_release=32 << 20, memory_release_interval=parts.seconds(1))  # free memory
# Counters of each name or certificate, which control knows itself. Creating them takes half of a start.
_UNCOUNTED = ("cluster.name.", "http.https.rds.", "sds.")


def build_bootstrap(settings: Settings) -> dict[str, Any]:
    """Return the configuration that Envoy reads when it starts, as JSON."""
    internal = parts.pack(InternalListener())
    uncounted = ListStringMatcher(patterns=[StringMatcher(prefix=it) for it in _UNCOUNTED])
    bootstrap = Bootstrap(
        node=Node(id="edge", cluster="edge"),
        admin=Admin(address=Address(pipe=Pipe(path="admin.sock", mode=0o600))),
        bootstrap_extensions=[TypedExtensionConfig(name="envoy.bootstrap.internal_listener", typed_config=internal)],
        layered_runtime=LayeredRuntime(layers=[RuntimeLayer(name="edge", static_layer=_runtime(settings))]),
        stats_config=StatsConfig(stats_matcher=StatsMatcher(exclusion_list=uncounted)),
        overload_manager=overload.build_manager(settings.limits),
        memory_allocator_manager=_RELEASED,
        dynamic_resources=Bootstrap.DynamicResources(
            ads_config=_control_source(), lds_config=parts.ADS, cds_config=parts.ADS
        ),
        static_resources=Bootstrap.StaticResources(
            clusters=[_control_cluster(settings.discovery_socket.name), stats.build_cluster()],
            listeners=[stats.build_listener()],
        ),
    )
    return json_format.MessageToDict(bootstrap, preserving_proto_field_name=True)


def _runtime(settings: Settings) -> Struct:
    runtime = Struct()
    runtime.update({_NO_RESET: False, "re2.max_program_size.error_level": _PROGRAM_SIZE})
    bounds = overload.connection_budgets(settings.limits)
    runtime.update({f"envoy.resource_limits.listener.{name}.connection_limit": it for name, it in bounds.items()})
    return runtime


def _control_source() -> ApiConfigSource:
    """Return how Envoy reaches control: one delta stream, reopened within a second if it breaks."""
    backoff = BackoffStrategy(base_interval=parts.seconds(0.1), max_interval=parts.seconds(1))
    service = GrpcService.EnvoyGrpc(cluster_name="control", retry_policy=RetryPolicy(retry_back_off=backoff))
    return ApiConfigSource(
        api_type=ApiConfigSource.DELTA_GRPC,
        transport_api_version=ApiVersion.V3,
        set_node_on_first_message_only=True,  # otherwise each message repeats 60 KB about Envoy's extensions
        grpc_services=[GrpcService(envoy_grpc=service)],
    )


def _control_cluster(socket: str) -> Cluster:
    http2 = HttpProtocolOptions.ExplicitHttpConfig(http2_protocol_options=Http2ProtocolOptions())
    options = parts.pack(HttpProtocolOptions(explicit_http_config=http2))
    return Cluster(
        name="control",
        type=Cluster.STATIC,
        load_assignment=parts.assignment("control", Address(pipe=Pipe(path=socket))),
        connect_timeout=parts.seconds(1),
        typed_extension_protocol_options={"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options},
    )
