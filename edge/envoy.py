"""A plan as Envoy's configuration: what each file holds. Pure; private keys are named here, and are in no file.

Envoy watches the files. It takes or refuses a listener as a whole, so each uploaded certificate has a listener of its
own, reached within the process: one that Envoy cannot use closes nobody else's addresses.
"""

from collections.abc import Mapping
from typing import TypeAlias

from edge import pages
from edge.plan import Group, Plan
from edge.records import Gateway, Site
from edge.settings import Settings

Json: TypeAlias = "Mapping[str, Json] | list[Json] | str | int | bool"

HOP_SECRET = "hop"  # noqa: S105 (a name)
_TYPE = "type.googleapis.com/envoy"
_NETWORK = f"{_TYPE}.extensions.filters.network"
_SNI_KEY = "envoy.network.upstream_server_name"  # what Envoy's router takes the upstream server name from


def bootstrap(settings: Settings) -> Json:
    """Return what Envoy is started with in the edge's folder; nothing in it depends on a tunnel.

    Its sockets are named as from that folder: the system takes no more than 107 bytes for one.
    """
    directory = settings.directory.resolve()
    return {
        "node": {"id": "edge", "cluster": "edge"},
        "admin": {"address": {"pipe": {"path": "admin.sock", "mode": 0o600}}},
        "bootstrap_extensions": [
            _typed(
                "envoy.bootstrap.internal_listener",
                f"{_TYPE}.extensions.bootstrap.internal_listener.v3.InternalListener",
            )
        ],
        "overload_manager": _overload(settings),
        "dynamic_resources": {
            "lds_config": _watched(str(directory / "listeners.json")),
            "cds_config": _watched(str(directory / "clusters.json")),
        },
        "static_resources": {"clusters": [_secrets_cluster("secrets.sock")]},
    }


def files(plan: Plan, settings: Settings, hop_authority: str) -> Mapping[str, Json]:
    """Return what each watched file is to hold, by its name, in the order in which they are to be written."""
    routes = {f"routes-{group.certificate}.json": _routes(group, plan, settings) for group in plan.groups}
    return {
        "clusters.json": _resources("config.cluster.v3.Cluster", *_clusters(plan, hop_authority, settings)),
        **routes,
        "listeners.json": _resources("config.listener.v3.Listener", *_listeners(plan, settings)),
    }


def _clusters(plan: Plan, hop_authority: str, settings: Settings) -> list[dict[str, Json]]:
    internal = [_internal_cluster(group) for group in plan.uploaded]
    return [*(_gateway_cluster(gateway, hop_authority, settings) for gateway in plan.gateways), *internal]


def _listeners(plan: Plan, settings: Settings) -> list[dict[str, Json]]:
    return [_http(settings), _front(plan, settings), *_internals(plan, settings)]


def _front(plan: Plan, settings: Settings) -> dict[str, Json]:
    """Return the listener on the public port: it reads the server name, and answers itself what is the operator's."""
    passed: list[Json] = [
        {
            "name": group.certificate,
            "filter_chain_match": {"server_names": [site.name for site in group.sites]},
            "filters": [_tcp_proxy(_internal(group))],
        }
        for group in plan.uploaded
    ]
    return {
        **_listener("https", settings.host, settings.edge_port),
        "listener_filters": [
            _typed(
                "envoy.filters.listener.tls_inspector",
                f"{_TYPE}.extensions.filters.listener.tls_inspector.v3.TlsInspector",
            )
        ],
        "filter_chains": passed,
        "default_filter_chain": _https_chain(plan.groups[0], settings),
    }


def _internals(plan: Plan, settings: Settings) -> list[dict[str, Json]]:
    return [
        {
            "name": _internal(group),
            "internal_listener": {},
            "filter_chains": [_https_chain(group, settings)],
        }
        for group in plan.uploaded
    ]


def _https_chain(group: Group, settings: Settings) -> Json:
    secret: Json = {"name": group.certificate, "sds_config": _SECRETS}
    return {
        "name": "https",
        "transport_socket": _typed(
            "envoy.transport_sockets.tls",
            f"{_TYPE}.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
            common_tls_context={
                "alpn_protocols": ["h2", "http/1.1"],
                "tls_params": {"tls_minimum_protocol_version": "TLSv1_2"},
                "tls_certificate_sds_secret_configs": [secret],
            },
        ),
        "transport_socket_connect_timeout": f"{settings.limits.header_timeout}s",
        "filters": [_https_manager(group, settings)],
    }


def _https_manager(group: Group, settings: Settings) -> Json:
    directory = settings.directory.resolve()
    return _manager(
        settings,
        stat_prefix="https",
        rds={
            "route_config_name": group.certificate,
            "config_source": _watched(str(directory / f"routes-{group.certificate}.json")),
        },
        upgrade_configs=[{"upgrade_type": "websocket"}],
        http_filters=[_upstream_name(), _router()],
        local_reply_config=_local_replies(),
        access_log=[_access_log(settings)],
    )


def _http(settings: Settings) -> dict[str, Json]:
    """Return the listener that sends every address of the domain to its https form."""
    port = {} if settings.edge_port == 443 else {"port_redirect": settings.edge_port}
    redirect: Json = {"match": {"prefix": "/"}, "redirect": {"https_redirect": True, **port}}
    route_config: Json = {
        "name": "http",
        "ignore_port_in_host_matching": True,
        "virtual_hosts": [
            {"name": "domain", "domains": [f"*.{settings.tunnel_domain}"], "routes": [redirect]},
            _answer("unknown", "*", status=404, text=pages.NO_TUNNEL),
        ],
    }
    manager = _manager(settings, stat_prefix="http", route_config=route_config, http_filters=[_router()])
    return {**_listener("http", settings.host, settings.http_port), "filter_chains": [{"filters": [manager]}]}


def _manager(settings: Settings, **more: Json) -> Json:
    limits = settings.limits
    return _typed(
        "envoy.filters.network.http_connection_manager",
        f"{_NETWORK}.http_connection_manager.v3.HttpConnectionManager",
        use_remote_address=True,
        skip_xff_append=True,
        generate_request_id=False,
        server_header_transformation="PASS_THROUGH",
        max_request_headers_kb=limits.max_header_kib,
        request_headers_timeout=f"{limits.header_timeout}s",
        stream_idle_timeout=f"{limits.idle_timeout}s",
        common_http_protocol_options={"idle_timeout": f"{limits.idle_timeout}s"},
        http2_protocol_options={
            "max_concurrent_streams": 100,
            "initial_stream_window_size": 1 << 20,
            "initial_connection_window_size": 4 << 20,
            "allow_connect": True,
        },
        **more,
    )


def _routes(group: Group, plan: Plan, settings: Settings) -> Json:
    """Return the hosts of one group; names that other groups serve are misdirected here (RFC 9110, 421)."""
    others = [site.name for other in plan.groups if other is not group for site in other.sites]
    misdirected = [_answer("misdirected", *others, status=421, text=pages.MISDIRECTED)] if others else []
    hosts: list[Json] = [
        *map(_host, group.sites),
        *misdirected,
        _answer("unknown", "*", status=404, text=pages.NO_TUNNEL),
    ]
    forwarded = {
        "x-forwarded-for": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
        "x-forwarded-host": "%REQ(:AUTHORITY)%",
        "x-forwarded-proto": "https",
        "x-forwarded-port": str(settings.edge_port),
    }
    route: dict[str, Json] = {
        "name": group.certificate,
        "ignore_port_in_host_matching": True,
        "virtual_hosts": hosts,
        "request_headers_to_add": [_overwrite(name, value) for name, value in forwarded.items()],
        "request_headers_to_remove": [
            "forwarded",
            "x-real-ip",
            "x-forwarded-server",
            "x-forwarded-ssl",
            "x-envoy-external-address",
        ],
    }
    return _resources("config.route.v3.RouteConfiguration", route)


def _host(site: Site) -> Json:
    return {
        "name": site.tunnel,
        "domains": [site.name],
        "metadata": {"filter_metadata": {"edge": {"tunnel": site.tunnel, "account": site.account}}},
        "routes": [{"match": {"prefix": "/"}, "route": {"cluster": site.gateway, "timeout": "0s"}}],
        "retry_policy": {"retry_on": "reset-before-request", "num_retries": 1},
    }


def _answer(name: str, *domains: str, status: int, text: str) -> Json:
    response: Json = {"status": status, "body": {"inline_string": text}}
    return {"name": name, "domains": list(domains), "routes": [{"match": {"prefix": "/"}, "direct_response": response}]}


def _gateway_cluster(gateway: Gateway, hop_authority: str, settings: Settings) -> dict[str, Json]:
    """Return how a gateway is reached: mutual TLS, where the server name is the tunnel's id."""
    context: Json = {
        "tls_certificate_sds_secret_configs": [{"name": HOP_SECRET, "sds_config": _SECRETS}],
        "validation_context": {
            "trusted_ca": {"inline_string": hop_authority},
            "match_typed_subject_alt_names": [{"san_type": "DNS", "matcher": {"exact": gateway.id.lower()}}],
        },
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3"},
    }
    tls = _typed(
        "envoy.transport_sockets.tls",
        f"{_TYPE}.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        common_tls_context=context,
    )
    return {
        **_cluster(gateway.id, {"socket_address": {"address": gateway.host, "port_value": gateway.port}}),
        "transport_socket": tls,
        "connect_timeout": f"{settings.limits.upstream_timeout}s",
        "typed_extension_protocol_options": _http1_options(),
        "circuit_breakers": {"thresholds": [_WITHOUT_LIMITS]},
    }


def _http1_options() -> Json:
    options: Json = {
        "@type": f"{_TYPE}.extensions.upstreams.http.v3.HttpProtocolOptions",
        "common_http_protocol_options": {"idle_timeout": "60s"},
        "explicit_http_config": {"http_protocol_options": {}},
    }
    return {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options}


def _internal_cluster(group: Group) -> dict[str, Json]:
    return _cluster(_internal(group), {"envoy_internal_address": {"server_listener_name": _internal(group)}})


def _secrets_cluster(path: str) -> Json:
    return {**_cluster("secrets", {"pipe": {"path": path}}), "connect_timeout": "1s"}


def _cluster(name: str, address: Json) -> dict[str, Json]:
    endpoint: Json = {"endpoint": {"address": address}}
    return {
        "name": name,
        "type": "STATIC",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]},
    }


def _listener(name: str, host: str, port: int) -> dict[str, Json]:
    return {
        "name": name,
        "address": {"socket_address": {"address": host, "port_value": port}},
        "listener_filters_timeout": "15s",
    }


def _internal(group: Group) -> str:
    return f"internal-{group.certificate}"


def _tcp_proxy(cluster: str) -> Json:
    return _typed(
        "envoy.filters.network.tcp_proxy", f"{_NETWORK}.tcp_proxy.v3.TcpProxy", stat_prefix="front", cluster=cluster
    )


def _upstream_name() -> Json:
    """Return the filter that makes the tunnel's id the server name on the hop, and keeps connections apart by it."""
    value: Json = {
        "object_key": _SNI_KEY,
        "format_string": {
            "text_format_source": {"inline_string": "%METADATA(VIRTUAL_HOST:edge:tunnel)%"},
            "omit_empty_values": True,
        },
        "skip_if_empty": True,
    }
    return _typed(
        "envoy.filters.http.set_filter_state",
        f"{_TYPE}.extensions.filters.http.set_filter_state.v3.Config",
        on_request_headers=[value],
    )


def _router() -> Json:
    return _typed(
        "envoy.filters.http.router",
        f"{_TYPE}.extensions.filters.http.router.v3.Router",
        suppress_envoy_headers=True,
    )


def _local_replies() -> Json:
    """Return what is said where the gateway or the upstream behind it did not answer."""
    silent: Json = {"response_flag_filter": {"flags": ["UF", "UC", "UH", "UR", "URX", "UO", "LR"]}}
    late: Json = {"response_flag_filter": {"flags": ["UT"]}}
    return {
        "mappers": [
            {"filter": silent, "status_code": 502, "body": {"inline_string": pages.NO_ANSWER}},
            {"filter": late, "status_code": 504, "body": {"inline_string": pages.NO_ANSWER}},
        ]
    }


def _access_log(settings: Settings) -> Json:
    """Return the log of requests: no body, no cookie, no query."""
    words: dict[str, Json] = {
        "time": "%START_TIME%",
        "account": "%METADATA(VIRTUAL_HOST:edge:account)%",
        "tunnel": "%METADATA(VIRTUAL_HOST:edge:tunnel)%",
        "host": "%REQ(:AUTHORITY)%",
        "method": "%REQ(:METHOD)%",
        "path": "%PATH(NQ)%",
        "protocol": "%PROTOCOL%",
        "status": "%RESPONSE_CODE%",
        "flags": "%RESPONSE_FLAGS%",
        "bytes_in": "%BYTES_RECEIVED%",
        "bytes_out": "%BYTES_SENT%",
        "milliseconds": "%DURATION%",
        "client": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
    }
    return _typed(
        "envoy.access_loggers.file",
        f"{_TYPE}.extensions.access_loggers.file.v3.FileAccessLog",
        path=settings.access_log or str(settings.directory.resolve() / "access.log"),
        log_format={"json_format": words},
    )


def _overload(settings: Settings) -> Json:
    monitor = _typed(
        "envoy.resource_monitors.global_downstream_max_connections",
        f"{_TYPE}.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
        max_active_downstream_connections=settings.limits.max_connections,
    )
    return {"resource_monitors": [monitor]}


def _overwrite(name: str, value: str) -> Json:
    return {"header": {"key": name, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}


def _typed(name: str, kind: str, **config: Json) -> Json:
    return {"name": name, "typed_config": {"@type": kind, **config}}


def _watched(path: str) -> Json:
    return {"resource_api_version": "V3", "path_config_source": {"path": path}}


def _resources(kind: str, *resources: dict[str, Json]) -> Json:
    return {"resources": [{"@type": f"{_TYPE}.{kind}", **resource} for resource in resources]}


_SECRETS: Json = {
    "resource_api_version": "V3",
    "api_config_source": {
        "api_type": "REST",
        "transport_api_version": "V3",
        "cluster_names": ["secrets"],
        "refresh_delay": "60s",
        "request_timeout": "5s",
    },
}
_MANY = 1_000_000
_WITHOUT_LIMITS: Json = {
    "max_connections": _MANY,
    "max_pending_requests": _MANY,
    "max_requests": _MANY,
    "max_retries": 100,
}
