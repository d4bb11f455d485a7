"""Builds clusters for gateways and tunnel groups (by mutual TLS), and for internal listeners. Does no I/O."""

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import NamedTuple, TypeAlias

from chalicelib.model.serving.edge_plans import Plan
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.envoy import parts, upstream_http, v3
from edge.envoy.resources import NAME_PREFIX, Resource, encode
from edge.link import proxy_protocol
from edge.process.settings import Limits, Settings

LINK_SECRET = parts.reserved_secret("link")
TUNNEL_KEY = "edge.tunnel"  # the key of the filter state that has the tunnel id of a byte connection
Members: TypeAlias = "Sequence[tuple[ServedTunnel, Gateway]]"
TLS = "envoy.transport_sockets.tls"
_TLS_1_3 = v3.TlsParameters(
    tls_minimum_protocol_version=v3.TlsParameters.TLSv1_3, tls_maximum_protocol_version=v3.TlsParameters.TLSv1_3
)
_MANY, _MAX_RETRIES = 1_000_000, 100
_TO_LISTENER = parts.assignment("", v3.Address(envoy_internal_address=v3.EnvoyInternalAddress()))
_RAW = v3.TransportSocket(name="envoy.transport_sockets.raw_buffer", typed_config=parts.pack(v3.RawBuffer()))
_PUBLIC = v3.ProxyProtocolConfig(version=v3.ProxyProtocolConfig.V2)
_PRIVATE = v3.ProxyProtocolConfig(  # the gateway does not forward a header that has this TLV, with any value
    version=v3.ProxyProtocolConfig.V2, added_tlvs=[v3.TlvEntry(type=proxy_protocol.PRIVATE, value=b"\0")]
)
_NAMING_TUNNEL = v3.ProxyProtocolConfig(
    version=v3.ProxyProtocolConfig.V2,
    added_tlvs=[
        v3.TlvEntry(
            type=proxy_protocol.TUNNEL, format_string=parts.format_string(f"%FILTER_STATE({TUNNEL_KEY}:PLAIN)%")
        )
    ],
)


class _Sockets(NamedTuple):
    """The transport sockets of connections to gateways. They differ in the PROXY protocol header that Envoy sends."""

    plain: v3.TransportSocket  # sends no PROXY protocol header to the gateway
    private: v3.TransportSocket  # sends a PROXY protocol header that the gateway does not forward to the upstream
    public: v3.TransportSocket  # sends a PROXY protocol header that the gateway forwards to the upstream


def http2_name(upstream: str) -> str:
    """Return the name of the HTTP/2 cluster (for gRPC) of a gateway or tunnel group."""
    return f"{upstream}/http2"


def group_name(backend: str) -> str:
    """Return the name of a tunnel group's cluster."""
    return f"group/{backend}"


def stream_name(plan: Plan) -> str:
    """Return the name of the cluster for an edge that forwards bytes.

    Each set of client CAs has its own cluster. Otherwise, if Envoy rejected a listener with new CAs, the old listener
    would forward visitors to the new cluster.
    """
    return f"stream/{plan.edge.id}/{plan.digest}" if plan.trusted else f"stream/{plan.edge.id}"


def proxied_name(upstream: str) -> str:
    """Return the name of the cluster that sends the visitor's address to tunnels."""
    return f"{upstream}/proxied"


def bytes_name(gateway: str) -> str:
    """Return the name of a gateway's cluster for byte connections, which are forwarded without reading HTTP."""
    return f"{gateway}/bytes"


def response_name(backend: str) -> str:
    """Return the name of a fixed HTTP response's cluster and listener. `backend` is the id of the response."""
    return f"answer/{backend}"


def edge_group_name(plan: Plan, backend: str) -> str:
    """Return the name of the cluster that an edge uses for a tunnel group."""
    return proxied_name(group_name(backend)) if plan.is_proxied else group_name(backend)


def circuit_name(route: str, cluster: str) -> str:
    """Return the name of a route's own copy of a group's cluster, which counts failures."""
    return f"circuit/{route}/{cluster}"


@lru_cache(256)
def build_gateway_clusters(gateway: Gateway, link_authority: str, settings: Settings) -> Sequence[Resource]:
    """Return the HTTP clusters of a gateway. They are cached, so that all names use the same objects."""
    return _http_clusters(gateway.id, *_to_gateway(gateway, link_authority, settings))


@lru_cache(256)
def build_proxied_gateway_clusters(gateway: Gateway, link_authority: str, settings: Settings) -> Sequence[Resource]:
    """Return the HTTP clusters of a gateway for tunnels that get a PROXY protocol header."""
    return _proxied_http_clusters(proxied_name(gateway.id), *_to_gateway(gateway, link_authority, settings))


def build_bytes_cluster(gateway: Gateway, link_authority: str, settings: Settings) -> Resource:
    """Return the cluster of a gateway for byte connections.

    Connections to a gateway on this host have no TLS, and a PROXY protocol header names the tunnel.
    """
    if not gateway.socket:
        cluster, sockets = _to_gateway(gateway, link_authority, settings)
        return _encode(cluster, bytes_name(gateway.id), sockets.public)
    cluster = v3.Cluster(
        type=v3.Cluster.STATIC,
        load_assignment=parts.assignment("", v3.Address(pipe=v3.Pipe(path=gateway.socket))),
        circuit_breakers=_circuit_breakers(_MANY),
        connect_timeout=parts.seconds(settings.limits.upstream_timeout),
    )
    return _encode(cluster, bytes_name(gateway.id), _with_proxy_protocol(_RAW, _NAMING_TUNNEL))


def build_group_clusters(backend: str, members: Members, link_authority: str, settings: Settings) -> list[Resource]:
    """Return the HTTP clusters of a tunnel group. Each cluster sends requests to the group's tunnels in turn."""
    return _http_clusters(group_name(backend), *_to_group(members, link_authority, settings))


def build_proxied_group_clusters(
    backend: str, members: Members, link_authority: str, settings: Settings
) -> list[Resource]:
    """Return the clusters of a tunnel group for edges that send a PROXY protocol header to tunnels."""
    return _proxied_http_clusters(proxied_name(group_name(backend)), *_to_group(members, link_authority, settings))


def build_stream_cluster(
    plan: Plan, groups: Sequence[tuple[str, int, Members]], link_authority: str, settings: Settings
) -> Resource:
    """Return the cluster for byte connections of an edge.

    The cluster distributes connections over tunnel groups by weight. A group without tunnels gets no connections. If
    weights or tunnels change, open connections continue. The gateway receives the visitor's address, and forwards it to
    the upstream if `plan.is_proxied`.
    """
    cluster = parts.copy(_template("stream", settings.limits.max_requests_per_backend, settings.limits))
    cluster.common_lb_config.locality_weighted_lb_config.SetInParent()
    for id, weight, members in groups:
        for share in parts.add_endpoints(cluster, members, settings.region):
            share.locality.sub_zone, share.load_balancing_weight.value = id, weight
    gateways = frozenset(gateway.id for _, _, members in groups for _, gateway in members)
    sockets = _group_sockets(gateways, link_authority)
    return _encode(cluster, stream_name(plan), sockets.public if plan.is_proxied else sockets.private)


def build_response_cluster(backend: str) -> Resource:
    """Return the cluster for the internal listener of a fixed HTTP response.

    Each request gets a new connection. On a reused connection, the old listener would still answer after the
    response has changed.
    """
    cluster = parts.copy(_response_template())
    _internal_address(cluster).server_listener_name = response_name(backend)
    return _encode(cluster, response_name(backend))


def build_listener_cluster(host: str, listener: str) -> Resource:
    """Return the cluster that forwards the connections for a host name to an internal listener."""
    cluster = parts.copy(_name_template())
    _internal_address(cluster).server_listener_name = listener
    return _encode(cluster, NAME_PREFIX + host)


def _http_clusters(name: str, cluster: v3.Cluster, sockets: _Sockets) -> list[Resource]:
    """Return the HTTP/1.1 and HTTP/2 clusters of an upstream.

    The gateway reads the visitor's address from HTTP/1.1 requests, but it does not parse HTTP/2. So each HTTP/2
    connection to the gateway starts with a PROXY protocol header, and serves only one visitor's connection.
    """
    return [
        _encode(cluster, name, sockets.plain, upstream_http.SHARED_HTTP1),
        _encode(cluster, http2_name(name), sockets.private, upstream_http.VISITOR_HTTP2),
    ]


def _proxied_http_clusters(name: str, cluster: v3.Cluster, sockets: _Sockets) -> list[Resource]:
    """Return an upstream's clusters for tunnels that get the visitor's address, for HTTP/1.1 and HTTP/2."""
    return [
        _encode(cluster, name, sockets.public, upstream_http.VISITOR_HTTP1),
        _encode(cluster, http2_name(name), sockets.public, upstream_http.VISITOR_HTTP2),
    ]


def _encode(
    cluster: v3.Cluster, name: str, socket: v3.TransportSocket | None = None, options: v3.Any | None = None
) -> Resource:
    """Set the fields that differ between the clusters of one upstream. Return the encoded cluster."""
    cluster.name = cluster.load_assignment.cluster_name = name
    if socket:
        cluster.transport_socket.CopyFrom(socket)
    if options:
        cluster.typed_extension_protocol_options[upstream_http.OPTIONS].CopyFrom(options)
    return encode(cluster)


def _to_gateway(gateway: Gateway, link_authority: str, settings: Settings) -> tuple[v3.Cluster, _Sockets]:
    """Return a template for the clusters of a gateway on another host, and their transport sockets."""
    cluster = parts.copy(_template("", _MANY, settings.limits))
    endpoint = cluster.load_assignment.endpoints.add().lb_endpoints.add().endpoint
    endpoint.address.CopyFrom(parts.address(gateway.host, gateway.port))
    return cluster, _gateway_sockets(gateway.id, link_authority)


def _to_group(members: Members, link_authority: str, settings: Settings) -> tuple[v3.Cluster, _Sockets]:
    """Return a template for the clusters of a tunnel group, and their transport sockets."""
    cluster = parts.copy(_template("group", settings.limits.max_requests_per_backend, settings.limits))
    parts.add_endpoints(cluster, members, settings.region)
    return cluster, _group_sockets(frozenset(gateway.id for _, gateway in members), link_authority)


def _internal_address(cluster: v3.Cluster) -> v3.EnvoyInternalAddress:
    return cluster.load_assignment.endpoints[0].lb_endpoints[0].endpoint.address.envoy_internal_address


@cache
def _template(alt_stat_name: str, max_requests: int, limits: Limits) -> v3.Cluster:
    """Return a cluster to gateways that lacks its name, addresses and TLS settings."""
    return v3.Cluster(
        type=v3.Cluster.STATIC,
        alt_stat_name=alt_stat_name,
        circuit_breakers=_circuit_breakers(max_requests),
        connect_timeout=parts.seconds(limits.upstream_timeout),
        upstream_bind_config=v3.BindConfig(socket_options=parts.socket_options(limits)),
    )


@cache
def _response_template() -> v3.Cluster:
    return v3.Cluster(
        type=v3.Cluster.STATIC,
        alt_stat_name="answer",
        load_assignment=_TO_LISTENER,
        circuit_breakers=_circuit_breakers(_MANY),
        typed_extension_protocol_options={upstream_http.OPTIONS: upstream_http.SINGLE_REQUEST_HTTP1},
    )


@cache
def _name_template() -> v3.Cluster:
    return v3.Cluster(
        type=v3.Cluster.STATIC,
        alt_stat_name="name",
        load_assignment=_TO_LISTENER,
        transport_socket=_with_proxy_protocol(_RAW, _PUBLIC),
    )


def _circuit_breakers(max_requests: int) -> v3.CircuitBreakers:
    limit, retries = parts.number(max_requests), parts.number(_MAX_RETRIES)
    threshold = v3.CircuitBreakers.Thresholds(
        max_connections=limit, max_pending_requests=limit, max_requests=limit, max_retries=retries
    )
    return v3.CircuitBreakers(thresholds=[threshold])


@lru_cache(1024)
def _gateway_sockets(gateway: str, link_authority: str) -> _Sockets:
    """Return the transport sockets for mutual TLS to one gateway. Each connection sets the server name."""
    return _sockets(v3.UpstreamTlsContext(common_tls_context=build_mutual_tls([gateway], link_authority)))


@lru_cache(1024)
def _group_sockets(gateways: frozenset[str], link_authority: str) -> _Sockets:
    """Return the transport sockets for mutual TLS to gateways. Without gateways, the sockets accept no peer."""
    tls = build_mutual_tls(sorted(gateways) or ["none"], link_authority)
    return _sockets(v3.UpstreamTlsContext(common_tls_context=tls, auto_host_sni=True))


def _sockets(context: v3.UpstreamTlsContext) -> _Sockets:
    plain = v3.TransportSocket(name=TLS, typed_config=parts.pack(context))
    return _Sockets(plain, _with_proxy_protocol(plain, _PRIVATE), _with_proxy_protocol(plain, _PUBLIC))


def _with_proxy_protocol(socket: v3.TransportSocket, config: v3.ProxyProtocolConfig) -> v3.TransportSocket:
    """Return a transport socket that first sends the client's address by the PROXY protocol."""
    transport = parts.pack(v3.ProxyProtocolUpstreamTransport(config=config, transport_socket=socket))
    return v3.TransportSocket(name="envoy.transport_sockets.upstream_proxy_protocol", typed_config=transport)


def build_mutual_tls(peers: Iterable[str], link_authority: str) -> v3.CommonTlsContext:
    """Return the TLS context for mutual TLS between hosts of the edge.

    `peers` are the accepted certificate names.
    """
    names = [
        v3.SubjectAltNameMatcher(san_type=v3.SubjectAltNameMatcher.DNS, matcher=v3.StringMatcher(exact=peer.lower()))
        for peer in peers
    ]
    return v3.CommonTlsContext(
        tls_params=_TLS_1_3,
        tls_certificate_sds_secret_configs=[parts.secret(LINK_SECRET)],
        validation_context=v3.CertificateValidationContext(
            trusted_ca=parts.text(link_authority), match_typed_subject_alt_names=names
        ),
    )
