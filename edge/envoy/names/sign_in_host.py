"""Builds Envoy's resources for the sign-in service. This file does no I/O.

These are clusters, and the host to which identity providers redirect visitors.
"""

from edge.envoy import clusters, http_manager, listeners, parts, stream_filters, upstream_http, v3
from edge.envoy.filters import access_log, passwords, sign_in, webhooks
from edge.envoy.names import https_listener, tls_contexts
from edge.envoy.names.tls_contexts import DEFAULT_VERSION
from edge.envoy.resources import Resource, encode
from edge.link import server
from edge.process.settings import Settings

# A second secret with the operator's certificate. If a listener named OPERATOR_SECRET, Envoy would not request
# OPERATOR_SECRET on demand.
SIGN_IN_SECRET = parts.reserved_secret("sign-in")
_LISTENER = "sign-in"
_NO_PAGE = "404: the sign-in service has no such page.\n"
_MANY = 1_000_000
_CONNECT_TIMEOUT = 2.0  # seconds to connect to another host
_IS_REACHED = v3.HealthCheck(
    tcp_health_check=v3.HealthCheck.TcpHealthCheck(),
    interval=parts.seconds(2),
    no_traffic_interval=parts.seconds(2),
    timeout=parts.seconds(_CONNECT_TIMEOUT),
    unhealthy_threshold=parts.number(1),
    healthy_threshold=parts.number(1),
)
_MAX_WEBHOOKS = 64  # the most webhooks at a time, because the service buffers each body. Further webhooks get 503


def build(settings: Settings, link_authority: str) -> tuple[Resource, ...]:
    """Return the resources of the sign-in service and its own host. They do not depend on any account."""
    host = settings.sign_in_host
    return (
        _build_cluster(settings, link_authority, sign_in.CLUSTER, _MANY),
        _build_cluster(settings, link_authority, webhooks.CLUSTER, _MAX_WEBHOOKS),
        _build_cluster(settings, link_authority, passwords.CLUSTER, _MANY),
        _build_listener(settings),
        clusters.build_listener_cluster(host, _LISTENER),
        https_listener.build_special_part(host, https_listener.INTERNAL, settings),
    )


def _build_cluster(settings: Settings, link_authority: str, name: str, max_requests: int) -> Resource:
    """Return a cluster for the sign-in service on this host, or on SIGN_IN_HOSTS.

    The cluster accepts at most `max_requests` requests at a time.
    """
    limits = v3.CircuitBreakers.Thresholds(
        max_requests=parts.number(max_requests),
        max_pending_requests=parts.number(max_requests),
        max_retries=parts.number(max_requests),
    )
    cluster = v3.Cluster(
        name=name,
        circuit_breakers=v3.CircuitBreakers(thresholds=[limits]),
        typed_extension_protocol_options={upstream_http.OPTIONS: upstream_http.SHARED_HTTP2},
    )
    cluster.MergeFrom(_build_remote(settings, link_authority) if settings.sign_in_hosts else _build_local(settings))
    cluster.load_assignment.cluster_name = name
    return encode(cluster)


def _build_local(settings: Settings) -> v3.Cluster:
    """Return the fields of a cluster for a sign-in service on this host.

    Without SIGN_IN_DIR, the socket is in the folder in which Envoy runs, so its path is relative.
    """
    socket = settings.sign_in_socket
    address = v3.Address(pipe=v3.Pipe(path=str(socket) if settings.sign_in_dir else socket.name))
    return v3.Cluster(
        type=v3.Cluster.STATIC,
        load_assignment=parts.assignment("", address),
        connect_timeout=parts.seconds(settings.limits.upstream_timeout),
    )


def _build_remote(settings: Settings, link_authority: str) -> v3.Cluster:
    """Return the fields of a cluster for sign-in services on other hosts, by mutual TLS.

    A host that accepts no connections gets no requests. If no host accepts connections, Envoy tries all hosts, and
    requests fail.
    """
    mutual = clusters.build_mutual_tls([server.SIGN_IN], link_authority)
    mutual.alpn_protocols.append("h2")
    tls = v3.UpstreamTlsContext(common_tls_context=mutual, sni=server.SIGN_IN)
    addresses = (v3.Endpoint(address=parts.address(host, port)) for host, port in settings.sign_in_hosts)
    endpoints = v3.LocalityLbEndpoints(lb_endpoints=[v3.LbEndpoint(endpoint=endpoint) for endpoint in addresses])
    return v3.Cluster(
        type=v3.Cluster.STRICT_DNS,
        dns_lookup_family=v3.Cluster.V4_PREFERRED,
        load_assignment=v3.ClusterLoadAssignment(endpoints=[endpoints]),
        connect_timeout=parts.seconds(_CONNECT_TIMEOUT),
        health_checks=[_IS_REACHED],
        transport_socket=v3.TransportSocket(name=clusters.TLS, typed_config=parts.pack(tls)),
    )


def _build_listener(settings: Settings) -> Resource:
    filters = [stream_filters.build_edge_limit(settings), _build_manager(settings)]
    return listeners.build_named_listener(_LISTENER, listeners.build_tls_chain("https", _socket(), filters, settings))


def _socket() -> v3.TransportSocket:
    """Return the transport socket for TLS with the operator's certificate, which is always loaded."""
    socket = parts.copy(tls_contexts.build_socket(DEFAULT_VERSION, protocols=listeners.HTTP_PROTOCOLS))
    context = v3.DownstreamTlsContext()
    socket.typed_config.Unpack(context)
    context.common_tls_context.ClearField("custom_tls_certificate_selector")
    context.common_tls_context.tls_certificate_sds_secret_configs.append(parts.secret(SIGN_IN_SECRET))
    socket.typed_config.Pack(context, deterministic=True)
    return socket


def _build_manager(settings: Settings) -> v3.Filter:
    """Return the HTTP connection manager of the sign-in service's own host.

    The manager asks the sign-in service about every request, and the service sends the response.
    """
    manager = http_manager.build_manager(settings, sign_in.build_ask_filter(settings), http_manager.ROUTER)
    routes = [sign_in.build_own_host_route(_NO_PAGE)]
    host = v3.VirtualHost(name=_LISTENER, domains=[settings.sign_in_host], routes=routes)
    manager.MergeFrom(
        v3.HttpConnectionManager(
            stat_prefix="https",
            route_config=v3.RouteConfiguration(name=_LISTENER, ignore_port_in_host_matching=True, virtual_hosts=[host]),
            access_log=[access_log.build_request_log(settings, {})],
        )
    )
    return v3.Filter(name=http_manager.NAME, typed_config=parts.pack(manager))
