"""Envoy's clusters: gateways and tunnel groups, by mutual TLS, and internal listeners. Pure."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from chalicelib.model.serving.edge_plans import Plan
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.envoy import parts
from edge.envoy.resources import NAME_PREFIX, Json, Key, Resource
from edge.link import proxy_protocol
from edge.process.settings import Settings

LINK_SECRET = parts.reserved_secret("link")
_OPTIONS = f"{parts.TYPE}.extensions.upstreams.http.v3.HttpProtocolOptions"
_MANY = 1_000_000
_RAW = parts.extension(
    "envoy.transport_sockets.raw_buffer", f"{parts.TYPE}.extensions.transport_sockets.raw_buffer.v3.RawBuffer"
)
TUNNEL_KEY = "edge.tunnel"  # the filter state with the tunnel id of a byte connection
_IDLE_TIMEOUT = "5s"  # of upstream connections that serve one visitor only: each occupies an SSH channel
Members: TypeAlias = "Sequence[tuple[ServedTunnel, Gateway]]"
_NO_VALUE = "AA=="  # base64 of one byte: Envoy requires a value, although the type says all
_HTTP1: Json = {"http_protocol_options": {"enable_trailers": True}}
_MOST_RESPONSE_HEADERS = 1000
_HTTP2: Json = {"http2_protocol_options": parts.WINDOWS}
_UNLIMITED: Json = {"max_connections": _MANY, "max_pending_requests": _MANY, "max_requests": _MANY, "max_retries": 100}


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


def build_gateway_clusters(gateway: Gateway, link_authority: str, settings: Settings) -> list[Resource]:
    """Return the clusters of a gateway, for HTTP/1.1, HTTP/2 and bytes. The server name is the tunnel's id.

    HTTP has two clusters each: with and without the PROXY protocol for the tunnel.
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
    """Return the byte cluster of a gateway on this host. A PROXY protocol header names the tunnel."""
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
    """Return the clusters of a tunnel group, round robin. The server name is the tunnel's id."""
    common = _tunnel_options(members, link_authority, settings, alt_stat_name="group")
    return _http_clusters(group_name(backend), _endpoints(members), common, settings, *_words(backend, members))


def build_proxied_group_clusters(
    backend: str, members: Members, link_authority: str, settings: Settings
) -> list[Resource]:
    """Return the same clusters, with the PROXY protocol for the tunnels."""
    common = _tunnel_options(members, link_authority, settings, alt_stat_name="group")
    common["transport_socket"] = _with_proxy_protocol(common["transport_socket"])
    return _proxied_http_clusters(
        proxied_name(group_name(backend)), _endpoints(members), common, settings, *_words(backend, members)
    )


def _words(backend: str, members: Members) -> tuple[str, ...]:
    return (backend, *(tunnel.id for tunnel, _ in members))


def edge_group_name(plan: Plan, backend: str) -> str:
    """Return the name of the cluster that an edge uses for a tunnel group."""
    return proxied_name(group_name(backend)) if plan.is_proxied else group_name(backend)


def build_stream_cluster(
    plan: Plan, groups: Sequence[tuple[str, int, Members]], link_authority: str, settings: Settings
) -> Resource:
    """Return the byte cluster of an edge, over groups by weight. The server name is the tunnel's id.

    The gateway gets the visitor's address, and forwards it to tunnels if the plan `is_proxied`. A group without tunnels
    gets no connections. Open connections survive changes of weights and tunnels.
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
    """Return the cluster of an HTTP response's internal listener.

    Each request gets a new connection, since a reused one would answer with the response before a change.
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


def build_listener_cluster(host: str, listener: str) -> Resource:
    """Return the cluster from a host name to an internal listener."""
    address: Json = {"envoy_internal_address": {"server_listener_name": listener}}
    name = NAME_PREFIX + host
    body = {**parts.cluster(name, address), "alt_stat_name": "name", "transport_socket": _with_proxy_protocol(_RAW)}
    return _resource(name, body, host, listener)


def _resource(name: str, body: Json, *words: str) -> Resource:
    return Resource(Key("cluster", name), body, words)


def _with_proxy_protocol(socket: Json, **more: Json) -> Json:
    """Return a transport socket that first sends the client's address by the PROXY protocol."""
    return parts.extension(
        "envoy.transport_sockets.upstream_proxy_protocol",
        f"{parts.TYPE}.extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport",
        config={"version": "V2", **more},
        transport_socket=socket,
    )


def _with_private_address(socket: Json) -> Json:
    """Return the same, for the gateway only: it does not forward the address."""
    return _with_proxy_protocol(socket, added_tlvs=[{"type": proxy_protocol.PRIVATE, "value": _NO_VALUE}])


def _http_clusters(
    name: str, endpoints: list[Json], common: Mapping[str, Json], settings: Settings, *words: str
) -> list[Resource]:
    """Return the HTTP/1.1 and HTTP/2 clusters of an upstream.

    The gateway reads the visitor's address from HTTP/1.1 requests. It does not parse HTTP/2, so each HTTP/2 connection
    serves one visitor's connection and starts with a PROXY protocol header.
    """
    told = {**common, "transport_socket": _with_private_address(common["transport_socket"])}
    by_http2 = _http_cluster(_HTTP2, http2_name(name), endpoints, told, settings, *words, idle_timeout=_IDLE_TIMEOUT)
    return [_http_cluster(_HTTP1, name, endpoints, common, settings, *words), by_http2]


def _proxied_http_clusters(
    name: str, endpoints: list[Json], common: Mapping[str, Json], settings: Settings, *words: str
) -> list[Resource]:
    """Return the same, where tunnels get the address too. `common` adds the PROXY protocol."""
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
    """Return a cluster for one version of HTTP."""
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
    """Return the mutual TLS and limits of a cluster of tunnels."""
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
