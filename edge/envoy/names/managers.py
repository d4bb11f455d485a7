"""Builds Envoy's HTTP connection manager for loaded names, which tunnels and edges share. This file does no I/O."""

from collections.abc import Sequence
from functools import cache
from typing import TypeAlias

from chalicelib.model.serving import pages
from edge.envoy import http_manager, parts, v3
from edge.envoy.filters import access_log, kept_headers, passwords, route_modules, webhooks
from edge.process.settings import Settings

Headers: TypeAlias = tuple[tuple[str, str], ...]
CLIENT_CERTIFICATE: Headers = (
    (
        "x-forwarded-client-cert",
        'Hash=%DOWNSTREAM_PEER_FINGERPRINT_256%;Cert="%DOWNSTREAM_PEER_CERT%";Subject="%DOWNSTREAM_PEER_SUBJECT%"',
    ),
)
# The header that selects a scope. A filter removes the header before the request is forwarded (see `claims`).
SCOPE_HEADER = "x-envoy-scope"
_TUNNEL = '{"operators":[{"command":"METADATA","param":"VIRTUAL_HOST:edge:tunnel"},"UPSTREAM_HOST_NAME_WITHOUT_PORT"]}'
_LOGGED = {
    "account": "%METADATA(VIRTUAL_HOST:edge:account)%",
    "edge": "%METADATA(VIRTUAL_HOST:edge:edge)%",
    "route": "%METADATA(ROUTE:edge:route)%",
    "backend": "%UPSTREAM_CLUSTER_RAW%",
    "tunnel": f"%COALESCE({_TUNNEL})%",
}
_IS_EDGE = access_log.matches("'edge' in xds.virtual_host_metadata.filter_metadata.edge")
_IS_OTHER_HOST = access_log.matches(  # not `==`, because the Host header can end with a port
    "!request.host.startsWith(connection.requested_server_name)"
)


def _reply(flags: list[str], status: int, text: str, *conditions: v3.AccessLogFilter) -> v3.ResponseMapper:
    """Return the response that Envoy itself sends for a request with one of these response flags."""
    flagged = v3.AccessLogFilter(response_flag_filter=v3.ResponseFlagFilter(flags=flags))
    return v3.ResponseMapper(
        filter=access_log.all_of(flagged, *conditions) if conditions else flagged,
        status_code=parts.number(status),
        body=parts.text(text),
    )


_SCOPED_ROUTES = v3.ScopedRoutes(
    name="names",
    scope_key_builder=v3.ScopedRoutes.ScopeKeyBuilder(
        fragments=[
            v3.ScopedRoutes.ScopeKeyBuilder.FragmentBuilder(
                header_value_extractor=v3.ScopedRoutes.ScopeKeyBuilder.FragmentBuilder.HeaderValueExtractor(
                    name=SCOPE_HEADER, index=0
                )
            )
        ]
    ),
    rds_config_source=parts.ADS,
    scoped_rds=v3.ScopedRds(scoped_rds_config_source=parts.ADS),
)
# Envoy's own responses, by response flags. NR means that Envoy has no route for the request. The response is then 404,
# or 421 if the host is not the server name of the connection. A browser can send requests for several names of the
# operator's certificate on one connection.
_REPLIES = (
    _reply(["UH", "NC"], 503, pages.NO_TUNNELS, _IS_EDGE),
    _reply(["UO"], 503, pages.TOO_MANY, _IS_EDGE),
    _reply(["NR"], 421, pages.MISDIRECTED, _IS_OTHER_HOST),
    _reply(["NR"], 404, pages.NO_TUNNEL),
    # response flags for failures of the gateway or the upstream
    _reply(["UF", "UC", "UH", "UR", "URX", "UO", "LR"], 502, pages.NO_ANSWER),
    _reply(["UT"], 504, pages.NO_ANSWER),
)
# The response while the resource that verifies session tokens lacks a route. Envoy's text would reveal route ids.
_REQUIREMENT_UNKNOWN = v3.ResponseMapper(
    filter=access_log.matches("response.code_details.startsWith('jwt_authn_')"),
    status_code=parts.number(503),
    body=parts.text(pages.CHANGING),
)


def build_names_manager(
    settings: Settings, requirement: str = "", client: Headers = (), guards: Sequence[v3.HttpFilter] = ()
) -> v3.Filter:
    """Return the HTTP connection manager that finds the scope of a connection by its server name.

    `requirement` is the handshake requirement of the connections (see `tls_contexts`). `client` are headers about the
    client's certificate, and `guards` are the filters of an edge with OAuth. A manager with `client` or `guards`
    belongs to one edge. It does not have the script that remembers passwords, because the script takes 280 KiB.
    """
    manager = v3.HttpConnectionManager()
    manager.CopyFrom(_template(settings, client))
    if not (client or guards):
        names = [http_filter.name for http_filter in manager.http_filters]
        manager.http_filters.insert(names.index(passwords.NAME), passwords.MEMORY)
    if guards:
        *first, upstream_name, router = manager.http_filters
        del manager.http_filters[:]
        manager.http_filters.extend([*first, *guards, upstream_name, router])
        replies = [_REQUIREMENT_UNKNOWN, *manager.local_reply_config.mappers]
        manager.local_reply_config.CopyFrom(v3.LocalReplyConfig(mappers=replies))
        del manager.access_log[:]
        manager.access_log.append(access_log.build_session_log(settings, _LOGGED))
    scope = v3.HeaderMutation(append=parts.set_header(SCOPE_HEADER, scope_of("%REQUESTED_SERVER_NAME%", requirement)))
    mutation = v3.EarlyHeaderMutation(mutations=[v3.HeaderMutation(remove=SCOPE_HEADER), scope])
    manager.early_header_mutation_extensions.add(
        name="envoy.http.early_header_mutation.header_mutation", typed_config=parts.pack(mutation)
    )
    return v3.Filter(name=http_manager.NAME, typed_config=parts.pack(manager))


def scope_of(name: str, requirement: str) -> str:
    """Return the name of the scope for a server name and a handshake requirement.

    After a change of the requirement, connections that were opened before it do not find the new scope.
    """
    return f"{requirement}/{name}" if requirement else name


@cache
def _template(settings: Settings, client: Headers) -> v3.HttpConnectionManager:
    """Return an HTTP connection manager, without the header mutation that sets SCOPE_HEADER."""
    limits = settings.limits
    manager = http_manager.build_manager(
        settings,
        *route_modules.list_filters().values(),
        kept_headers.RECORDER,
        http_manager.build_client_headers(settings, dict(client)),
        passwords.build_filter(settings),
        webhooks.build_filter(settings),
        http_manager.UPSTREAM_NAME,
        http_manager.ROUTER,
    )
    manager.MergeFrom(
        v3.HttpConnectionManager(
            stat_prefix="https",
            scoped_routes=_SCOPED_ROUTES,
            upgrade_configs=[v3.HttpConnectionManager.UpgradeConfig(upgrade_type="websocket")],
            local_reply_config=v3.LocalReplyConfig(mappers=_REPLIES),
            access_log=[access_log.build_request_log(settings, _LOGGED)],
            common_http_protocol_options=v3.HttpProtocolOptions(
                idle_timeout=parts.seconds(limits.idle_timeout),
                max_connection_duration=parts.seconds(limits.max_connection_duration),
            ),
        )
    )
    return manager
