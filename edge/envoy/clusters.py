"""Envoy's clusters: gateways and tunnel groups, by mutual TLS, and internal listeners. Pure."""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TypeAlias

from chalicelib.model.serving.edge_plans import Plan
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.envoy import parts, v3
from edge.envoy.resources import NAME_PREFIX, Resource, encode
from edge.link import proxy_protocol
from edge.process.settings import Limits, Settings

LINK_SECRET = parts.reserved_secret("link")
TUNNEL_KEY = "edge.tunnel"  # the filter state with the tunnel id of a byte connection
Members: TypeAlias = "Sequence[tuple[ServedTunnel, Gateway]]"
_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_TLS = "envoy.transport_sockets.tls"
_TLS_1_3 = v3.TlsParameters(
    tls_minimum_protocol_version=v3.TlsParameters.TLSv1_3, tls_maximum_protocol_version=v3.TlsParameters.TLSv1_3
)
_MANY, _MAX_RETRIES = 1_000_000, 100
_MAX_HEADERS = parts.number(1000)  # of a response
_SHARED = v3.HttpProtocolOptions(idle_timeout=parts.seconds(60), max_headers_count=_MAX_HEADERS)
_OF_ONE_VISITOR = v3.HttpProtocolOptions(  # each connection occupies an SSH channel
    idle_timeout=parts.seconds(5), max_headers_count=_MAX_HEADERS
)
_OF_ONE_REQUEST = v3.HttpProtocolOptions(
    idle_timeout=parts.seconds(60), max_headers_count=_MAX_HEADERS, max_requests_per_connection=parts.number(1)
)
_HTTP1 = v3.UpstreamProtocolOptions.ExplicitHttpConfig(
    http_protocol_options=v3.Http1ProtocolOptions(enable_trailers=True)
)
_HTTP1_WITHOUT_TRAILERS = v3.UpstreamProtocolOptions.ExplicitHttpConfig(http_protocol_options=v3.Http1ProtocolOptions())
_HTTP2 = v3.UpstreamProtocolOptions.ExplicitHttpConfig(
    http2_protocol_options=v3.Http2ProtocolOptions(
        initial_stream_window_size=parts.STREAM_WINDOW, initial_connection_window_size=parts.CONNECTION_WINDOW
    )
)
_NO_VALUE = b"\0"  # Envoy requires a value, although the type says all
_RAW = v3.TransportSocket(name="envoy.transport_sockets.raw_buffer", typed_config=parts.pack(v3.RawBuffer()))
_PUBLIC = v3.ProxyProtocolConfig(version=v3.ProxyProtocolConfig.V2)
_PRIVATE = v3.ProxyProtocolConfig(  # for the gateway only: it does not forward the address
    version=v3.ProxyProtocolConfig.V2, added_tlvs=[v3.TlvEntry(type=proxy_protocol.PRIVATE, value=_NO_VALUE)]
)
_NAMING_TUNNEL = v3.ProxyProtocolConfig(
    version=v3.ProxyProtocolConfig.V2,
    added_tlvs=[
        v3.TlvEntry(
            type=proxy_protocol.TUNNEL, format_string=parts.format_string(f"%FILTER_STATE({TUNNEL_KEY}:PLAIN)%")
        )
    ],
)


def http2_name(upstream: str) -> str:
    """Return the name of a gateway's or group's cluster for HTTP/2, which gRPC needs."""
    return f"{upstream}/http2"


def group_name(backend: str) -> str:
    """Return the name of a tunnel group's cluster."""
    return f"group/{backend}"


def stream_name(plan: Plan) -> str:
    """Return the name of the cluster of an edge that forwards bytes.

    It differs for each set of authorities: if Envoy rejects a listener with new authorities, it keeps the old listener,
    which then must not find the cluster.
    """
    return f"stream/{plan.edge.id}/{plan.digest}" if plan.trusted else f"stream/{plan.edge.id}"


def proxied_name(upstream: str) -> str:
    """Return the name of the cluster that sends the visitor's address to tunnels."""
    return f"{upstream}/proxied"


def bytes_name(gateway: str) -> str:
    """Return the name of a gateway's cluster for byte connections."""
    return f"{gateway}/bytes"


def response_name(backend: str) -> str:
    """Return the name of an HTTP response's cluster and listener."""
    return f"answer/{backend}"


def edge_group_name(plan: Plan, backend: str) -> str:
    """Return the name of the cluster that an edge uses for a tunnel group."""
    return proxied_name(group_name(backend)) if plan.is_proxied else group_name(backend)


def build_gateway_clusters(gateway: Gateway, link_authority: str, settings: Settings) -> list[Resource]:
    """Return the HTTP clusters of a gateway. The server name is the tunnel's id."""
    return _http_clusters(gateway.id, _gateway_cluster(gateway, link_authority, settings))


def build_proxied_gateway_clusters(gateway: Gateway, link_authority: str, settings: Settings) -> list[Resource]:
    """Return the same clusters, with the PROXY protocol for the tunnels."""
    return _proxied_http_clusters(proxied_name(gateway.id), _gateway_cluster(gateway, link_authority, settings))


def build_bytes_cluster(gateway: Gateway, link_authority: str, settings: Settings) -> Resource:
    """Return the cluster of a gateway for byte connections.

    On this host there is no TLS, and a PROXY protocol header names the tunnel.
    """
    if not gateway.socket:
        return encode(_named(bytes_name(gateway.id), _gateway_cluster(gateway, link_authority, settings), _PUBLIC))
    cluster = v3.Cluster(
        name=bytes_name(gateway.id),
        type=v3.Cluster.STATIC,
        load_assignment=parts.assignment(bytes_name(gateway.id), v3.Address(pipe=v3.Pipe(path=gateway.socket))),
        transport_socket=_with_proxy_protocol(_RAW, _NAMING_TUNNEL),
        circuit_breakers=_circuit_breakers(_MANY),
        connect_timeout=parts.seconds(settings.limits.upstream_timeout),
    )
    return encode(cluster)


def build_group_clusters(backend: str, members: Members, link_authority: str, settings: Settings) -> list[Resource]:
    """Return the clusters of a tunnel group, round robin. The server name is the tunnel's id."""
    return _http_clusters(group_name(backend), _group_cluster(members, link_authority, settings))


def build_proxied_group_clusters(
    backend: str, members: Members, link_authority: str, settings: Settings
) -> list[Resource]:
    """Return the same clusters, with the PROXY protocol for the tunnels."""
    return _proxied_http_clusters(proxied_name(group_name(backend)), _group_cluster(members, link_authority, settings))


def build_stream_cluster(
    plan: Plan, groups: Sequence[tuple[str, int, Members]], link_authority: str, settings: Settings
) -> Resource:
    """Return the byte cluster of an edge, over groups by weight. The server name is the tunnel's id.

    The gateway gets the visitor's address, and forwards it to tunnels if the plan `is_proxied`. A group without tunnels
    gets no connections. Open connections survive changes of weights and tunnels.
    """
    shares = [
        v3.LocalityLbEndpoints(
            locality=v3.Locality(sub_zone=id),
            load_balancing_weight=parts.number(weight),
            lb_endpoints=_endpoints(members),
        )
        for id, weight, members in groups
    ]
    socket = _group_tls([it for _, _, members in groups for it in members], link_authority)
    cluster = v3.Cluster(
        name=stream_name(plan),
        type=v3.Cluster.STATIC,
        alt_stat_name="stream",
        load_assignment=v3.ClusterLoadAssignment(cluster_name=stream_name(plan), endpoints=shares),
        common_lb_config=v3.Cluster.CommonLbConfig(
            locality_weighted_lb_config=v3.Cluster.CommonLbConfig.LocalityWeightedLbConfig()
        ),
        transport_socket=_with_proxy_protocol(socket, _PUBLIC if plan.is_proxied else _PRIVATE),
        circuit_breakers=_circuit_breakers(settings.limits.max_requests_per_backend),
        connect_timeout=parts.seconds(settings.limits.upstream_timeout),
        upstream_bind_config=_bind_config(settings.limits),
    )
    return encode(cluster)


def build_response_cluster(backend: str) -> Resource:
    """Return the cluster of an HTTP response's internal listener.

    Each request gets a new connection, since a reused one would answer with the response before a change.
    """
    name = response_name(backend)
    cluster = v3.Cluster(
        name=name,
        type=v3.Cluster.STATIC,
        alt_stat_name="answer",
        load_assignment=parts.assignment(name, _internal_address(name)),
        circuit_breakers=_circuit_breakers(_MANY),
        typed_extension_protocol_options={_OPTIONS: _options(_HTTP1_WITHOUT_TRAILERS, _OF_ONE_REQUEST)},
    )
    return encode(cluster)


def build_listener_cluster(host: str, listener: str) -> Resource:
    """Return the cluster from a host name to an internal listener."""
    name = NAME_PREFIX + host
    cluster = v3.Cluster(
        name=name,
        type=v3.Cluster.STATIC,
        alt_stat_name="name",
        load_assignment=parts.assignment(name, _internal_address(listener)),
        transport_socket=_with_proxy_protocol(_RAW, _PUBLIC),
    )
    return encode(cluster)


def build_sign_in_cluster(name: str, settings: Settings) -> Resource:
    """Return the cluster of the sign-in service on this host. Envoy runs in the folder of its socket."""
    cluster = v3.Cluster(
        name=name,
        type=v3.Cluster.STATIC,
        load_assignment=parts.assignment(name, v3.Address(pipe=v3.Pipe(path=settings.sign_in_socket.name))),
        circuit_breakers=_circuit_breakers(_MANY),
        connect_timeout=parts.seconds(settings.limits.upstream_timeout),
        typed_extension_protocol_options={_OPTIONS: _options(_HTTP2, _SHARED)},
    )
    return encode(cluster)


def _http_clusters(name: str, upstream: v3.Cluster) -> list[Resource]:
    """Return the HTTP/1.1 and HTTP/2 clusters of an upstream.

    The gateway reads the visitor's address from HTTP/1.1 requests. It does not parse HTTP/2, so each HTTP/2 connection
    serves one visitor's connection and starts with a PROXY protocol header.
    """
    http1, http2 = _named(name, upstream), _named(http2_name(name), upstream, _PRIVATE)
    return [_http_cluster(http1, _HTTP1, _SHARED), _http_cluster(http2, _HTTP2, _OF_ONE_VISITOR)]


def _proxied_http_clusters(name: str, upstream: v3.Cluster) -> list[Resource]:
    """Return the same, where tunnels get the address too."""
    http1, http2 = _named(name, upstream, _PUBLIC), _named(http2_name(name), upstream, _PUBLIC)
    return [_http_cluster(http1, _HTTP1, _OF_ONE_VISITOR), _http_cluster(http2, _HTTP2, _OF_ONE_VISITOR)]


def _http_cluster(
    cluster: v3.Cluster, version: v3.UpstreamProtocolOptions.ExplicitHttpConfig, common: v3.HttpProtocolOptions
) -> Resource:
    cluster.typed_extension_protocol_options[_OPTIONS].CopyFrom(_options(version, common))
    return encode(cluster)


def _options(version: v3.UpstreamProtocolOptions.ExplicitHttpConfig, common: v3.HttpProtocolOptions) -> v3.Any:
    return parts.pack(v3.UpstreamProtocolOptions(common_http_protocol_options=common, explicit_http_config=version))


def _named(name: str, upstream: v3.Cluster, address: v3.ProxyProtocolConfig | None = None) -> v3.Cluster:
    """Return a copy of a cluster with a name. `address` says who gets the visitor's address."""
    cluster = v3.Cluster()
    cluster.CopyFrom(upstream)
    cluster.name = cluster.load_assignment.cluster_name = name
    if address:
        cluster.transport_socket.CopyFrom(_with_proxy_protocol(upstream.transport_socket, address))
    return cluster


def _gateway_cluster(gateway: Gateway, link_authority: str, settings: Settings) -> v3.Cluster:
    """Return what the remote clusters of a gateway share."""
    context = v3.UpstreamTlsContext(common_tls_context=_mutual_tls([gateway.id], link_authority))
    return v3.Cluster(
        type=v3.Cluster.STATIC,
        load_assignment=parts.assignment("", parts.address(gateway.host, gateway.port)),
        transport_socket=v3.TransportSocket(name=_TLS, typed_config=parts.pack(context)),
        circuit_breakers=_circuit_breakers(_MANY),
        connect_timeout=parts.seconds(settings.limits.upstream_timeout),
        upstream_bind_config=_bind_config(settings.limits),
    )


def _group_cluster(members: Members, link_authority: str, settings: Settings) -> v3.Cluster:
    """Return what the clusters of a tunnel group share."""
    return v3.Cluster(
        type=v3.Cluster.STATIC,
        alt_stat_name="group",
        load_assignment=v3.ClusterLoadAssignment(endpoints=[v3.LocalityLbEndpoints(lb_endpoints=_endpoints(members))]),
        transport_socket=_group_tls(members, link_authority),
        circuit_breakers=_circuit_breakers(settings.limits.max_requests_per_backend),
        connect_timeout=parts.seconds(settings.limits.upstream_timeout),
        upstream_bind_config=_bind_config(settings.limits),
    )


def _endpoints(members: Members) -> list[v3.LbEndpoint]:
    return [
        v3.LbEndpoint(endpoint=v3.Endpoint(hostname=tunnel.id, address=parts.address(gateway.host, gateway.port)))
        for tunnel, gateway in members
    ]


def _internal_address(listener: str) -> v3.Address:
    return v3.Address(envoy_internal_address=v3.EnvoyInternalAddress(server_listener_name=listener))


def _circuit_breakers(most: int) -> v3.CircuitBreakers:
    threshold = v3.CircuitBreakers.Thresholds(
        max_connections=parts.number(most),
        max_pending_requests=parts.number(most),
        max_requests=parts.number(most),
        max_retries=parts.number(_MAX_RETRIES),
    )
    return v3.CircuitBreakers(thresholds=[threshold])


@cache
def _bind_config(limits: Limits) -> v3.BindConfig:
    return v3.BindConfig(socket_options=parts.socket_options(limits))


def _with_proxy_protocol(socket: v3.TransportSocket, config: v3.ProxyProtocolConfig) -> v3.TransportSocket:
    """Return a transport socket that first sends the client's address by the PROXY protocol."""
    transport = v3.ProxyProtocolUpstreamTransport(config=config, transport_socket=socket)
    return v3.TransportSocket(
        name="envoy.transport_sockets.upstream_proxy_protocol", typed_config=parts.pack(transport)
    )


def _group_tls(members: Members, link_authority: str) -> v3.TransportSocket:
    """Return mutual TLS to the gateways of tunnels, without any gateway to a name that none has."""
    gateways = sorted({gateway.id for _, gateway in members}) or ["none"]
    context = v3.UpstreamTlsContext(common_tls_context=_mutual_tls(gateways, link_authority), auto_host_sni=True)
    return v3.TransportSocket(name=_TLS, typed_config=parts.pack(context))


def _mutual_tls(gateways: Iterable[str], link_authority: str) -> v3.CommonTlsContext:
    names = [
        v3.SubjectAltNameMatcher(san_type=v3.SubjectAltNameMatcher.DNS, matcher=v3.StringMatcher(exact=gateway.lower()))
        for gateway in gateways
    ]
    return v3.CommonTlsContext(
        tls_params=_TLS_1_3,
        tls_certificate_sds_secret_configs=[parts.secret(LINK_SECRET)],
        validation_context=v3.CertificateValidationContext(
            trusted_ca=parts.text(link_authority), match_typed_subject_alt_names=names
        ),
    )
