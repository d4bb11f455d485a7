"""Short names for the messages of Envoy's API, version 3, that several files of the edge build."""

from envoy.config.accesslog.v3.accesslog_pb2 import (
    AccessLog,
    AccessLogFilter,
    AndFilter,
    ComparisonFilter,
    ExtensionFilter,
    OrFilter,
    ResponseFlagFilter,
    RuntimeFilter,
    StatusCodeFilter,
)
from envoy.config.bootstrap.v3.bootstrap_pb2 import (
    Admin,
    Bootstrap,
    LayeredRuntime,
    MemoryAllocatorManager,
    RuntimeLayer,
)
from envoy.config.cluster.v3.circuit_breaker_pb2 import CircuitBreakers
from envoy.config.cluster.v3.cluster_pb2 import Cluster
from envoy.config.cluster.v3.outlier_detection_pb2 import OutlierDetection
from envoy.config.common.mutation_rules.v3.mutation_rules_pb2 import HeaderMutation
from envoy.config.core.v3.address_pb2 import Address, BindConfig, CidrRange, EnvoyInternalAddress, Pipe, SocketAddress
from envoy.config.core.v3.backoff_pb2 import BackoffStrategy
from envoy.config.core.v3.base_pb2 import (
    INBOUND,
    DataSource,
    HeaderValue,
    HeaderValueOption,
    Locality,
    Metadata,
    Node,
    RuntimeFractionalPercent,
    RuntimeUInt32,
    TransportSocket,
)
from envoy.config.core.v3.base_pb2 import RetryPolicy as GrpcRetryPolicy
from envoy.config.core.v3.config_source_pb2 import (
    AggregatedConfigSource,
    ApiConfigSource,
    ApiVersion,
    ConfigSource,
    ExtensionConfigSource,
)
from envoy.config.core.v3.extension_pb2 import TypedExtensionConfig
from envoy.config.core.v3.grpc_service_pb2 import GrpcService
from envoy.config.core.v3.health_check_pb2 import HealthCheck
from envoy.config.core.v3.protocol_pb2 import Http1ProtocolOptions, Http2ProtocolOptions, HttpProtocolOptions
from envoy.config.core.v3.proxy_protocol_pb2 import ProxyProtocolConfig, TlvEntry
from envoy.config.core.v3.socket_option_pb2 import SocketOption
from envoy.config.core.v3.substitution_format_string_pb2 import SubstitutionFormatString
from envoy.config.endpoint.v3.endpoint_components_pb2 import Endpoint, LbEndpoint, LocalityLbEndpoints
from envoy.config.endpoint.v3.endpoint_pb2 import ClusterLoadAssignment
from envoy.config.listener.v3.listener_components_pb2 import Filter, FilterChain, FilterChainMatch, ListenerFilter
from envoy.config.listener.v3.listener_pb2 import Listener
from envoy.config.metrics.v3.stats_pb2 import StatsConfig, StatsMatcher
from envoy.config.overload.v3.overload_pb2 import (
    BufferFactoryConfig,
    OverloadAction,
    OverloadManager,
    ResourceMonitor,
    ScaledTrigger,
    ScaleTimersOverloadActionConfig,
    ThresholdTrigger,
    Trigger,
)
from envoy.config.rbac.v3.rbac_pb2 import RBAC, Permission, Policy, Principal
from envoy.config.rbac.v3.rbac_pb2 import Action as RBACAction
from envoy.config.route.v3.route_components_pb2 import (
    DirectResponseAction,
    HeaderMatcher,
    RateLimit,
    RedirectAction,
    RetryPolicy,
    Route,
    RouteAction,
    RouteMatch,
    VirtualHost,
    WeightedCluster,
)
from envoy.config.route.v3.route_pb2 import RouteConfiguration
from envoy.config.route.v3.scoped_route_pb2 import ScopedRouteConfiguration
from envoy.extensions.access_loggers.file.v3.file_pb2 import FileAccessLog
from envoy.extensions.access_loggers.filters.cel.v3.cel_pb2 import ExpressionFilter
from envoy.extensions.bootstrap.internal_listener.v3.internal_listener_pb2 import InternalListener
from envoy.extensions.common.ratelimit.v3.ratelimit_pb2 import LocalRateLimitDescriptor, RateLimitDescriptor
from envoy.extensions.filters.common.set_filter_state.v3.value_pb2 import FilterStateValue
from envoy.extensions.filters.http.ext_authz.v3.ext_authz_pb2 import (
    BufferSettings,
    CheckSettings,
    ExtAuthz,
    ExtAuthzPerRoute,
)
from envoy.extensions.filters.http.header_mutation.v3.header_mutation_pb2 import HeaderMutation as HeaderMutationFilter
from envoy.extensions.filters.http.header_mutation.v3.header_mutation_pb2 import HeaderMutationPerRoute, Mutations
from envoy.extensions.filters.http.header_to_metadata.v3.header_to_metadata_pb2 import Config as HeaderToMetadata
from envoy.extensions.filters.http.jwt_authn.v3.config_pb2 import (
    JwtAuthentication,
    JwtCacheConfig,
    JwtClaimToHeader,
    JwtProvider,
    JwtRequirement,
    JwtRequirementOrList,
)
from envoy.extensions.filters.http.jwt_authn.v3.config_pb2 import PerRouteConfig as JwtPerRoute
from envoy.extensions.filters.http.local_ratelimit.v3.local_rate_limit_pb2 import LocalRateLimit
from envoy.extensions.filters.http.lua.v3.lua_pb2 import Lua, LuaPerRoute
from envoy.extensions.filters.http.rbac.v3.rbac_pb2 import RBAC as HttpRBAC
from envoy.extensions.filters.http.rbac.v3.rbac_pb2 import RBACPerRoute as HttpRBACPerRoute
from envoy.extensions.filters.http.router.v3.router_pb2 import Router
from envoy.extensions.filters.http.set_filter_state.v3.set_filter_state_pb2 import Config as HttpFilterState
from envoy.extensions.filters.listener.proxy_protocol.v3.proxy_protocol_pb2 import ProxyProtocol
from envoy.extensions.filters.listener.tls_inspector.v3.tls_inspector_pb2 import TlsInspector
from envoy.extensions.filters.network.connection_limit.v3.connection_limit_pb2 import ConnectionLimit
from envoy.extensions.filters.network.http_connection_manager.v3.http_connection_manager_pb2 import (
    HttpConnectionManager,
    HttpFilter,
    LocalReplyConfig,
    Rds,
    ResponseMapper,
    ScopedRds,
    ScopedRoutes,
)
from envoy.extensions.filters.network.rbac.v3.rbac_pb2 import RBAC as NetworkRBAC
from envoy.extensions.filters.network.set_filter_state.v3.set_filter_state_pb2 import Config as NetworkFilterState
from envoy.extensions.filters.network.tcp_proxy.v3.tcp_proxy_pb2 import ON_DOWNSTREAM_TLS_HANDSHAKE, TcpProxy
from envoy.extensions.http.early_header_mutation.header_mutation.v3.header_mutation_pb2 import (
    HeaderMutation as EarlyHeaderMutation,
)
from envoy.extensions.matching.common_inputs.network.v3.network_inputs_pb2 import (
    ApplicationProtocolInput,
    DirectSourceIPInput,
    ServerNameInput,
    SourceIPInput,
)
from envoy.extensions.matching.input_matchers.ip.v3.ip_pb2 import Ip
from envoy.extensions.resource_monitors.downstream_connections.v3.downstream_connections_pb2 import (
    DownstreamConnectionsConfig,
)
from envoy.extensions.resource_monitors.fixed_heap.v3.fixed_heap_pb2 import FixedHeapConfig
from envoy.extensions.resource_monitors.injected_resource.v3.injected_resource_pb2 import InjectedResourceConfig
from envoy.extensions.retry.host.previous_hosts.v3.previous_hosts_pb2 import PreviousHostsPredicate
from envoy.extensions.transport_sockets.proxy_protocol.v3.upstream_proxy_protocol_pb2 import (
    ProxyProtocolUpstreamTransport,
)
from envoy.extensions.transport_sockets.raw_buffer.v3.raw_buffer_pb2 import RawBuffer
from envoy.extensions.transport_sockets.tls.v3.common_pb2 import (
    CertificateValidationContext,
    SubjectAltNameMatcher,
    TlsCertificate,
    TlsParameters,
)
from envoy.extensions.transport_sockets.tls.v3.secret_pb2 import SdsSecretConfig, Secret
from envoy.extensions.transport_sockets.tls.v3.tls_pb2 import CommonTlsContext, DownstreamTlsContext, UpstreamTlsContext
from envoy.extensions.upstreams.http.v3.http_protocol_options_pb2 import HttpProtocolOptions as UpstreamProtocolOptions
from envoy.type.matcher.v3.metadata_pb2 import MetadataMatcher
from envoy.type.matcher.v3.regex_pb2 import RegexMatchAndSubstitute, RegexMatcher
from envoy.type.matcher.v3.string_pb2 import ListStringMatcher, StringMatcher
from envoy.type.matcher.v3.value_pb2 import ValueMatcher
from envoy.type.v3.http_status_pb2 import HttpStatus, ServiceUnavailable
from envoy.type.v3.percent_pb2 import FractionalPercent, Percent
from envoy.type.v3.token_bucket_pb2 import TokenBucket
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.protobuf.empty_pb2 import Empty
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.wrappers_pb2 import BoolValue, StringValue, UInt32Value, UInt64Value
from xds.core.v3.extension_pb2 import TypedExtensionConfig as XdsExtensionConfig
from xds.type.matcher.v3.matcher_pb2 import Matcher
from xds.type.matcher.v3.regex_pb2 import RegexMatcher as XdsRegexMatcher
from xds.type.matcher.v3.string_pb2 import StringMatcher as XdsStringMatcher
