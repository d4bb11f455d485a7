"""Envoy's upstreams: gateways and groups of tunnels, by mutual TLS, and listeners within the process. Pure."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from chalicelib.model.gateways import Gateway
from chalicelib.model.tunnels import ServedTunnel
from edge.link import proxy_protocol
from edge.process.settings import Settings
from edge.traffic import parts
from edge.traffic.edges import Plan
from edge.traffic.resources import NAME_PREFIX, Json, Key, Resource
from edge.traffic.world import Site

LINK_SECRET = "link"  # noqa: S105 (a name)
_OPTIONS = f"{parts.TYPE}.extensions.upstreams.http.v3.HttpProtocolOptions"
_MANY = 1_000_000
_RAW = parts.extension(
    "envoy.transport_sockets.raw_buffer", f"{parts.TYPE}.extensions.transport_sockets.raw_buffer.v3.RawBuffer"
)
TUNNEL_KEY = "edge.tunnel"  # under which a connection of bytes has the id of its tunnel
_IDLE_TIMEOUT = "5s"  # for which a visitor's own connection to an upstream, which is a channel, waits for more requests
Members: TypeAlias = "Sequence[tuple[ServedTunnel, Gateway]]"
_NO_VALUE = "AA=="  # the value of what is said by its type, as base64: Envoy wants a byte
_HTTP1: Json = {"http_protocol_options": {"enable_trailers": True}}
_MOST_RESPONSE_HEADERS = 1000
_HTTP2: Json = {"http2_protocol_options": parts.WINDOWS}
_UNLIMITED: Json = {"max_connections": _MANY, "max_pending_requests": _MANY, "max_requests": _MANY, "max_retries": 100}


def http2_name(upstream: str) -> str:
    """Return the name of the upstream of a gateway or group for gRPC, which speaks HTTP/2 to the end."""
    return f"{upstream}/http2"


def group_name(backend: str) -> str:
    """Return the name of the upstream of a tunnel group."""
    return f"group/{backend}"


def stream_name(plan: Plan) -> str:
    """Return the name of the upstream of an edge that passes connections on as bytes.

    It is another one for each choice of authorities: where Envoy refuses the listener with those, the one before it
    stays, and must lead nowhere.
    """
    return f"stream/{plan.edge.id}/{plan.digest}" if plan.trusted else f"stream/{plan.edge.id}"


def proxied_name(upstream: str) -> str:
    """Return the name of the upstream of a gateway or group that is told who a visitor is, of each apart."""
    return f"{upstream}/proxied"


def bytes_name(gateway: str) -> str:
    """Return the name of the upstream of a gateway for connections of bytes."""
    return f"{gateway}/bytes"


def response_name(backend: str) -> str:
    """Return the name of the upstream, and of the listener, of an HTTP response."""
    return f"answer/{backend}"


def certificate_listener_name(certificate: str) -> str:
    """Return the name of the listener of a certificate."""
    return f"certificate/{certificate}"


def build_gateway_clusters(gateway: Gateway, link_authority: str, settings: Settings) -> list[Resource]:
    """Return the upstreams of a gateway, by HTTP/1.1, by HTTP/2 and by bytes: the server name is the tunnel's id.

    Of HTTP there are two that do not tell a tunnel who a visitor is, and two that do.
    """
    endpoint: Json = {"endpoint": {"address": _address(gateway)}}
    common: dict[str, Json] = {
        "transport_socket": _mutual_tls([gateway.id], link_authority),
        "circuit_breakers": {"thresholds": [_UNLIMITED]},
    }
    by_proxy = {**common, "transport_socket": _with_proxy_protocol(common["transport_socket"])}
    far: Json = {**parts.upstream(bytes_name(gateway.id), [endpoint]), **by_proxy, **_connect_options(settings)}
    by_visitor = _proxied_http_clusters(proxied_name(gateway.id), [endpoint], by_proxy, settings)
    passing = _resource(bytes_name(gateway.id), _local_bytes_cluster(gateway, settings) if gateway.socket else far)
    return [*_http_clusters(gateway.id, [endpoint], common, settings), *by_visitor, passing]


def _local_bytes_cluster(gateway: Gateway, settings: Settings) -> Json:
    """Return the upstream of a gateway on this host for connections of bytes: a header names the tunnel of each."""
    named: Json = {
        "type": proxy_protocol.TUNNEL,
        "format_string": {"text_format_source": {"inline_string": f"%FILTER_STATE({TUNNEL_KEY}:PLAIN)%"}},
    }
    return {
        **parts.cluster(bytes_name(gateway.id), {"pipe": {"path": gateway.socket}}),
        "transport_socket": _with_proxy_protocol(_RAW, added_tlvs=[named]),
        "circuit_breakers": {"thresholds": [_UNLIMITED]},
        "connect_timeout": f"{settings.limits.upstream_timeout}s",
    }


def build_group_clusters(backend: str, members: Members, link_authority: str, settings: Settings) -> list[Resource]:
    """Return the upstreams of a tunnel group, whose tunnels take turns: the server name is the id of that tunnel."""
    common = _tunnel_options(members, link_authority, settings, alt_stat_name="group")
    return _http_clusters(group_name(backend), _endpoints(members), common, settings, *_words(backend, members))


def build_proxied_group_clusters(
    backend: str, members: Members, link_authority: str, settings: Settings
) -> list[Resource]:
    """Return the same for edges whose reservations say that tunnels are told who a visitor is."""
    common = _tunnel_options(members, link_authority, settings, alt_stat_name="group")
    common["transport_socket"] = _with_proxy_protocol(common["transport_socket"])
    return _proxied_http_clusters(
        proxied_name(group_name(backend)), _endpoints(members), common, settings, *_words(backend, members)
    )


def _words(backend: str, members: Members) -> tuple[str, ...]:
    return (backend, *(tunnel.id for tunnel, _ in members))


def edge_group_name(plan: Plan, backend: str) -> str:
    """Return the name of the upstream by which an edge leads to a tunnel group."""
    return proxied_name(group_name(backend)) if plan.is_proxied else group_name(backend)


def build_stream_cluster(
    plan: Plan, groups: Sequence[tuple[str, int, Members]], link_authority: str, settings: Settings
) -> Resource:
    """Return the upstream of several groups, by weight, for bytes: the server name is the id of the tunnel.

    The gateway is told who a visitor is, and of a plan that is proxied passes that on as the first bytes. A group
    without tunnels takes no connections. Those that are open stay when weights or tunnels are others.
    """
    shares: list[Json] = [
        {"locality": {"sub_zone": id}, "load_balancing_weight": weight, "lb_endpoints": _endpoints(members)}
        for id, weight, members in groups
    ]
    name, every = stream_name(plan), [it for _, _, members in groups for it in members]
    common = _tunnel_options(every, link_authority, settings)
    common["transport_socket"] = (_with_proxy_protocol if plan.is_proxied else _with_private_address)(
        common["transport_socket"]
    )
    body: Json = {
        "name": name,
        "type": "STATIC",
        "alt_stat_name": "stream",
        "load_assignment": {"cluster_name": name, "endpoints": shares},
        "common_lb_config": {"locality_weighted_lb_config": {}},
        **common,
        **_connect_options(settings),
    }
    return _resource(name, body, plan.edge.id, *(id for id, _, _ in groups), *(tunnel.id for tunnel, _ in every))


def build_response_cluster(backend: str) -> Resource:
    """Return the upstream to the listener of an HTTP response, which is in this process.

    A connection that is kept would go on to answer what was answered before a change.
    """
    name = response_name(backend)
    address: Json = {"envoy_internal_address": {"server_listener_name": name}}
    body: Json = {
        **parts.cluster(name, address),
        "alt_stat_name": "answer",
        "circuit_breakers": {"thresholds": [_UNLIMITED]},
        "typed_extension_protocol_options": _protocol_options(
            {"http_protocol_options": {}}, max_requests_per_connection=1
        ),
    }
    return _resource(name, body, backend)


def build_name_cluster(site: Site) -> Resource:
    """Return the upstream from a host name to the listener of its certificate, told the client by PROXY protocol."""
    return build_listener_cluster(site.name, certificate_listener_name(site.certificate))


def build_listener_cluster(host: str, listener: str) -> Resource:
    """Return the upstream from a host name to a listener in this process."""
    address: Json = {"envoy_internal_address": {"server_listener_name": listener}}
    name = NAME_PREFIX + host
    body = {**parts.cluster(name, address), "alt_stat_name": "name", "transport_socket": _with_proxy_protocol(_RAW)}
    return _resource(name, body, host, listener)


def _resource(name: str, body: Json, *words: str) -> Resource:
    return Resource(Key("cluster", name), body, words)


def _with_proxy_protocol(socket: Json, **more: Json) -> Json:
    """Return a socket behind the PROXY protocol, which tells who the client is."""
    return parts.extension(
        "envoy.transport_sockets.upstream_proxy_protocol",
        f"{parts.TYPE}.extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport",
        config={"version": "V2", **more},
        transport_socket=socket,
    )


def _with_private_address(socket: Json) -> Json:
    """Return a socket behind the same, which the gateway reads and passes on to nobody."""
    return _with_proxy_protocol(socket, added_tlvs=[{"type": proxy_protocol.PRIVATE, "value": _NO_VALUE}])


def _http_clusters(
    name: str, endpoints: list[Json], common: Mapping[str, Json], settings: Settings, *words: str
) -> list[Resource]:
    """Return an upstream by HTTP/1.1, whose requests tell the gateway who a visitor is, and by HTTP/2.

    Of HTTP/2 the gateway reads no request, so that each connection is of one visitor's connection, and says of which.
    """
    told = {**common, "transport_socket": _with_private_address(common["transport_socket"])}
    by_http2 = _http_cluster(_HTTP2, http2_name(name), endpoints, told, settings, *words, idle_timeout=_IDLE_TIMEOUT)
    return [_http_cluster(_HTTP1, name, endpoints, common, settings, *words), by_http2]


def _proxied_http_clusters(
    name: str, endpoints: list[Json], common: Mapping[str, Json], settings: Settings, *words: str
) -> list[Resource]:
    """Return the same, where tunnels are told too: `common` says who a visitor is."""
    return [
        _http_cluster(version, it, endpoints, common, settings, *words, idle_timeout=_IDLE_TIMEOUT)
        for it, version in {name: _HTTP1, http2_name(name): _HTTP2}.items()
    ]


def _http_cluster(
    version: Json,
    name: str,
    endpoints: list[Json],
    common: Mapping[str, Json],
    settings: Settings,
    *words: str,
    **options: Json,
) -> Resource:
    """Return an upstream by a version of HTTP."""
    body = {**parts.upstream(name, endpoints), **common, **_connect_options(settings)}
    return _resource(name, {**body, "typed_extension_protocol_options": _protocol_options(version, **options)}, *words)


def _connect_options(settings: Settings) -> Mapping[str, Json]:
    return {
        "connect_timeout": f"{settings.limits.upstream_timeout}s",
        "upstream_bind_config": {"socket_options": parts.socket_options(settings.limits)},
    }


def _endpoints(members: Members) -> list[Json]:
    return [{"endpoint": {"hostname": tunnel.id, "address": _address(gateway)}} for tunnel, gateway in members]


def _tunnel_options(members: Members, link_authority: str, settings: Settings, **more: Json) -> dict[str, Json]:
    """Return the mutual TLS of an upstream of tunnels, and its bounds."""
    most = settings.limits.max_requests_per_backend
    bounds: Json = {"max_connections": most, "max_pending_requests": most, "max_requests": most, "max_retries": 100}
    gateways = sorted({gateway.id for _, gateway in members}) or ["none"]
    return {
        "transport_socket": _mutual_tls(gateways, link_authority, auto_host_sni=True),
        "circuit_breakers": {"thresholds": [bounds]},
        **more,
    }


def _address(gateway: Gateway) -> Json:
    return {"socket_address": {"address": gateway.host, "port_value": gateway.port}}


def _mutual_tls(gateways: Sequence[str], link_authority: str, **more: Json) -> Json:
    context: Json = {
        "tls_certificate_sds_secret_configs": [parts.secret(LINK_SECRET)],
        "validation_context": {
            "trusted_ca": {"inline_string": link_authority},
            "match_typed_subject_alt_names": [
                {"san_type": "DNS", "matcher": {"exact": gateway.lower()}} for gateway in gateways
            ],
        },
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3"},
    }
    kind = f"{parts.TYPE}.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
    return parts.extension("envoy.transport_sockets.tls", kind, common_tls_context=context, **more)


def _protocol_options(version: Json, **more: Json) -> Json:
    options: Json = {
        "@type": _OPTIONS,
        "common_http_protocol_options": {"idle_timeout": "60s", "max_headers_count": _MOST_RESPONSE_HEADERS, **more},
        "explicit_http_config": version,
    }
    return {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options}
