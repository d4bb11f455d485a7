"""The sign-in service in Envoy: its cluster, and its own host, to which providers redirect visitors. Pure."""

from edge.envoy import clusters, http_manager, listeners, parts, stream_filters, upstream_http, v3
from edge.envoy.filters import access_log, passwords, sign_in, webhooks
from edge.envoy.names import https_listener, tls_contexts
from edge.envoy.names.tls_contexts import DEFAULT_VERSION
from edge.envoy.resources import Resource, encode
from edge.process.settings import Settings

# Another name of the operator's certificate: Envoy requests a secret on demand only if no listener refers to it.
SIGN_IN_SECRET = parts.reserved_secret("sign-in")
_LISTENER = "sign-in"
_NO_PAGE = "404: the sign-in service has no such page.\n"
_MANY = 1_000_000
_MOST_WEBHOOKS = 64  # concurrent ones, since the service buffers their bodies. Others get 503


def build(settings: Settings) -> tuple[Resource, ...]:
    """Return the resources of the service and of its host. They never depend on an account."""
    host = settings.sign_in_host
    return (
        _build_cluster(settings, sign_in.CLUSTER, _MANY),
        _build_cluster(settings, webhooks.CLUSTER, _MOST_WEBHOOKS),
        _build_cluster(settings, passwords.CLUSTER, _MANY),
        _build_listener(settings),
        clusters.build_listener_cluster(host, _LISTENER),
        https_listener.build_special_part(host, https_listener.INTERNAL, settings),
    )


def _build_cluster(settings: Settings, name: str, most: int) -> Resource:
    """Return a cluster of the sign-in service on this host, limited to `most` concurrent requests.

    Without SIGN_IN_DIR, the socket is in the folder in which Envoy runs.
    """
    socket = settings.sign_in_socket
    address = v3.Address(pipe=v3.Pipe(path=str(socket) if settings.sign_in_dir else socket.name))
    limits = v3.CircuitBreakers.Thresholds(max_requests=parts.number(most), max_pending_requests=parts.number(most))
    cluster = v3.Cluster(
        name=name,
        type=v3.Cluster.STATIC,
        load_assignment=parts.assignment(name, address),
        circuit_breakers=v3.CircuitBreakers(thresholds=[limits]),
        connect_timeout=parts.seconds(settings.limits.upstream_timeout),
        typed_extension_protocol_options={upstream_http.OPTIONS: upstream_http.SHARED_HTTP2},
    )
    return encode(cluster)


def _build_listener(settings: Settings) -> Resource:
    filters = [stream_filters.build_edge_limit(settings), _build_manager(settings)]
    return listeners.build_named_listener(_LISTENER, listeners.build_tls_chain("https", _socket(), filters, settings))


def _socket() -> v3.TransportSocket:
    """Return TLS with the operator's certificate, which is always loaded."""
    socket = parts.copy(tls_contexts.build_socket(DEFAULT_VERSION, protocols=listeners.HTTP_PROTOCOLS))
    context = v3.DownstreamTlsContext()
    socket.typed_config.Unpack(context)
    context.common_tls_context.ClearField("custom_tls_certificate_selector")
    context.common_tls_context.tls_certificate_sds_secret_configs.append(parts.secret(SIGN_IN_SECRET))
    socket.typed_config.Pack(context, deterministic=True)
    return socket


def _build_manager(settings: Settings) -> v3.Filter:
    """Return the HTTP manager. Its only filter asks the service, which answers every request."""
    manager = http_manager.build_manager(settings, sign_in.ASK_FILTER, http_manager.ROUTER)
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
