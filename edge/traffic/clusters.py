"""Envoy's upstreams: a gateway, by mutual TLS, and from a host name to the listener of its certificate. Pure."""

from chalicelib.model.gateways import Gateway
from edge.process.settings import Settings
from edge.traffic import parts
from edge.traffic.resources import Json, Key, Resource
from edge.traffic.world import Site

LINK_SECRET = "link"  # noqa: S105 (a name)
PREFIX = "name/"  # of the upstreams that a visitor's server name leads to: it must be able to name no other
_OPTIONS = f"{parts.TYPE}.extensions.upstreams.http.v3.HttpProtocolOptions"
_MANY = 1_000_000
_UNLIMITED: Json = {"max_connections": _MANY, "max_pending_requests": _MANY, "max_requests": _MANY, "max_retries": 100}


def http2(gateway: str) -> str:
    """Return the name of a gateway's upstream for gRPC, which speaks HTTP/2 to the end."""
    return f"{gateway}/http2"


def internal(certificate: str) -> str:
    """Return the name of the listener of a certificate."""
    return f"certificate/{certificate}"


def of_gateway(gateway: Gateway, link_authority: str, settings: Settings) -> list[Resource]:
    """Return how a gateway is reached, by HTTP/1.1 and by HTTP/2: the server name is the tunnel's id."""
    names: dict[str, Json] = {
        gateway.id: {"http_protocol_options": {}},
        http2(gateway.id): {"http2_protocol_options": parts.WINDOWS},
    }
    address: Json = {"socket_address": {"address": gateway.host, "port_value": gateway.port}}
    common: dict[str, Json] = {
        "transport_socket": _mutual_tls(gateway.id, link_authority),
        "connect_timeout": f"{settings.limits.upstream_timeout}s",
        "circuit_breakers": {"thresholds": [_UNLIMITED]},
        "upstream_bind_config": {"socket_options": parts.socket_options(settings.limits)},
    }
    return [
        Resource(
            Key("cluster", name),
            {**parts.cluster(name, address), **common, "typed_extension_protocol_options": _http(version)},
        )
        for name, version in names.items()
    ]


def of_name(site: Site) -> Resource:
    """Return the upstream from a host name to the listener of its certificate, told the client by PROXY protocol."""
    raw = parts.typed(
        "envoy.transport_sockets.raw_buffer", f"{parts.TYPE}.extensions.transport_sockets.raw_buffer.v3.RawBuffer"
    )
    proxy_protocol = parts.typed(
        "envoy.transport_sockets.upstream_proxy_protocol",
        f"{parts.TYPE}.extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport",
        config={"version": "V2"},
        transport_socket=raw,
    )
    address: Json = {"envoy_internal_address": {"server_listener_name": internal(site.certificate)}}
    name = PREFIX + site.name
    body = {**parts.cluster(name, address), "alt_stat_name": "name", "transport_socket": proxy_protocol}
    return Resource(Key("cluster", name), body, (site.name, site.certificate))


def _mutual_tls(gateway: str, link_authority: str) -> Json:
    context: Json = {
        "tls_certificate_sds_secret_configs": [parts.secret(LINK_SECRET)],
        "validation_context": {
            "trusted_ca": {"inline_string": link_authority},
            "match_typed_subject_alt_names": [{"san_type": "DNS", "matcher": {"exact": gateway.lower()}}],
        },
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3"},
    }
    kind = f"{parts.TYPE}.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
    return parts.typed("envoy.transport_sockets.tls", kind, common_tls_context=context)


def _http(version: Json) -> Json:
    options: Json = {
        "@type": _OPTIONS,
        "common_http_protocol_options": {"idle_timeout": "60s"},
        "explicit_http_config": version,
    }
    return {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options}
