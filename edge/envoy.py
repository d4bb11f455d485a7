"""A plan as Envoy's configuration: what each file holds. Pure; private keys are named here, and are in no file.

Envoy watches the files. It takes or refuses a listener as a whole, so each uploaded certificate has a listener of its
own, reached within the process: one that Envoy cannot use closes nobody else's addresses.
"""

from collections.abc import Mapping

from edge import envoy_http as http
from edge import envoy_overload as overload
from edge import envoy_parts as parts
from edge.envoy_parts import Json
from edge.plan import Group, Plan
from edge.records import Gateway
from edge.settings import Settings

HOP_SECRET = "hop"  # noqa: S105 (a name)

_RUNTIME: Json = {
    # Else Envoy resets the connection between two of its listeners when it closes one: the end of an answer is lost.
    "envoy.reloadable_features.enable_send_rst_on_user_space_socket": False,
    "re2.max_program_size.error_level": 5000,  # of 100: `claims` is longer
}


def bootstrap(settings: Settings) -> Json:
    """Return what Envoy is started with in the edge's folder; nothing in it depends on a tunnel.

    Its sockets are named as from that folder: the system takes no more than 107 bytes for one.
    """
    directory = settings.directory.resolve()
    return {
        "node": {"id": "edge", "cluster": "edge"},
        "admin": {"address": {"pipe": {"path": "admin.sock", "mode": 0o600}}},
        "bootstrap_extensions": [
            parts.typed(
                "envoy.bootstrap.internal_listener",
                f"{parts.TYPE}.extensions.bootstrap.internal_listener.v3.InternalListener",
            )
        ],
        "layered_runtime": {"layers": [{"name": "edge", "static_layer": _RUNTIME}]},
        "overload_manager": overload.manager(settings.limits),
        "dynamic_resources": {
            "lds_config": parts.watched(str(directory / "listeners.json")),
            "cds_config": parts.watched(str(directory / "clusters.json")),
        },
        "static_resources": {"clusters": [_secrets_cluster("secrets.sock")]},
    }


def files(plan: Plan, settings: Settings, hop_authority: str) -> Mapping[str, Json]:
    """Return what each watched file is to hold, by its name, in the order in which they are to be written."""
    routes = {f"routes-{group.certificate}.json": http.routes(group, plan, settings) for group in plan.groups}
    return {
        "clusters.json": parts.resources("config.cluster.v3.Cluster", *_clusters(plan, hop_authority, settings)),
        **routes,
        "listeners.json": parts.resources("config.listener.v3.Listener", *_listeners(plan, settings)),
    }


def _clusters(plan: Plan, hop_authority: str, settings: Settings) -> list[dict[str, Json]]:
    gateways = [
        {
            **_gateway_cluster(gateway, hop_authority, settings),
            "name": name,
            "typed_extension_protocol_options": options,
        }
        for gateway in plan.gateways
        for name, options in ((gateway.id, _options(_HTTP1)), (http.grpc_cluster(gateway.id), _options(_HTTP2)))
    ]
    return [*gateways, *(_internal_cluster(group) for group in plan.uploaded)]


def _listeners(plan: Plan, settings: Settings) -> list[dict[str, Json]]:
    return [_plain(settings), _front(plan, settings), *_internals(plan, settings)]


def _plain(settings: Settings) -> dict[str, Json]:
    """Return the listener for http, which is redirected."""
    return {
        **parts.listener("http", settings.host, settings.http_port, settings.limits),
        "filter_chains": [{"filters": [http.redirecting_manager(settings)]}],
    }


def _front(plan: Plan, settings: Settings) -> dict[str, Json]:
    """Return the listener on the public port: it reads the server name, and answers itself what is the operator's."""
    passed: list[Json] = [
        {
            "name": group.certificate,
            "filter_chain_match": {"server_names": [site.name for site in group.sites]},
            "filters": [_passed_on(group)],
        }
        for group in plan.uploaded
    ]
    return {
        **parts.listener("https", settings.host, settings.edge_port, settings.limits),
        "listener_filters": [_listener_filter("tls_inspector", "TlsInspector")],
        "filter_chains": passed,
        "default_filter_chain": _https_chain(plan.groups[0], settings),
    }


def _internals(plan: Plan, settings: Settings) -> list[dict[str, Json]]:
    """Return the listeners of the uploaded certificates; the front says with PROXY protocol who the client is."""
    return [
        {
            "name": _internal(group),
            "internal_listener": {},
            "listener_filters": [_listener_filter("proxy_protocol", "ProxyProtocol")],
            "filter_chains": [_https_chain(group, settings)],
        }
        for group in plan.uploaded
    ]


def _https_chain(group: Group, settings: Settings) -> Json:
    secret: Json = {"name": group.certificate, "sds_config": parts.SECRETS}
    return {
        "name": "https",
        "transport_socket": parts.typed(
            "envoy.transport_sockets.tls",
            f"{parts.TYPE}.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
            common_tls_context={
                "alpn_protocols": ["h2", "http/1.1"],
                "tls_params": {"tls_minimum_protocol_version": "TLSv1_2"},
                "tls_certificate_sds_secret_configs": [secret],
            },
        ),
        "transport_socket_connect_timeout": f"{settings.limits.header_timeout}s",
        "filters": [http.https_manager(group, settings)],
    }


def _gateway_cluster(gateway: Gateway, hop_authority: str, settings: Settings) -> dict[str, Json]:
    """Return how a gateway is reached: mutual TLS, where the server name is the tunnel's id."""
    context: Json = {
        "tls_certificate_sds_secret_configs": [{"name": HOP_SECRET, "sds_config": parts.SECRETS}],
        "validation_context": {
            "trusted_ca": {"inline_string": hop_authority},
            "match_typed_subject_alt_names": [{"san_type": "DNS", "matcher": {"exact": gateway.id.lower()}}],
        },
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3"},
    }
    tls = parts.typed(
        "envoy.transport_sockets.tls",
        f"{parts.TYPE}.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        common_tls_context=context,
    )
    return {
        **parts.cluster(gateway.id, {"socket_address": {"address": gateway.host, "port_value": gateway.port}}),
        "transport_socket": tls,
        "connect_timeout": f"{settings.limits.upstream_timeout}s",
        "circuit_breakers": {"thresholds": [_UNLIMITED]},
        "upstream_bind_config": {"socket_options": parts.socket_options(settings.limits)},
    }


def _options(version: Json) -> Json:
    """Return how an upstream is spoken to, which negotiates no version of HTTP."""
    options: Json = {
        "@type": f"{parts.TYPE}.extensions.upstreams.http.v3.HttpProtocolOptions",
        "common_http_protocol_options": {"idle_timeout": "60s"},
        "explicit_http_config": version,
    }
    return {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options}


def _internal_cluster(group: Group) -> dict[str, Json]:
    raw = parts.typed(
        "envoy.transport_sockets.raw_buffer", f"{parts.TYPE}.extensions.transport_sockets.raw_buffer.v3.RawBuffer"
    )
    proxy_protocol = parts.typed(
        "envoy.transport_sockets.upstream_proxy_protocol",
        f"{parts.TYPE}.extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport",
        config={"version": "V2"},
        transport_socket=raw,
    )
    address: Json = {"envoy_internal_address": {"server_listener_name": _internal(group)}}
    return {**parts.cluster(_internal(group), address), "transport_socket": proxy_protocol}


def _secrets_cluster(path: str) -> Json:
    return {**parts.cluster("secrets", {"pipe": {"path": path}}), "connect_timeout": "1s"}


def _listener_filter(name: str, kind: str) -> Json:
    return parts.typed(f"envoy.filters.listener.{name}", f"{parts.TYPE}.extensions.filters.listener.{name}.v3.{kind}")


def _passed_on(group: Group) -> Json:
    return parts.typed(
        "envoy.filters.network.tcp_proxy",
        f"{parts.NETWORK}.tcp_proxy.v3.TcpProxy",
        stat_prefix="front",
        cluster=_internal(group),
    )


def _internal(group: Group) -> str:
    return f"internal-{group.certificate}"


_HTTP1: Json = {"http_protocol_options": {}}
_HTTP2: Json = {"http2_protocol_options": http.WINDOWS}

_MANY = 1_000_000
_UNLIMITED: Json = {"max_connections": _MANY, "max_pending_requests": _MANY, "max_requests": _MANY, "max_retries": 100}
