"""Builds Envoy's HTTP connection managers for public connections, and the filters in them. This file does no I/O."""

from collections.abc import Mapping

from chalicelib.model.edges.headers import claims
from chalicelib.model.serving import pages
from edge.envoy import parts, v3
from edge.envoy.filters import blocking, visitor_limits
from edge.envoy.routes import REDIRECTING
from edge.process.settings import Settings

NAME = "envoy.filters.network.http_connection_manager"
# the key of the filter state with the server name that Envoy requests from the upstream by TLS
SERVER_NAME_KEY = "envoy.network.upstream_server_name"
# Envoy obeys x-envoy-… headers from addresses that it calls internal, by default all private addresses. No client has
# the address below.
_NO_INTERNAL_ADDRESSES = v3.HttpConnectionManager.InternalAddressConfig(
    cidr_ranges=[v3.CidrRange(address_prefix="255.255.255.255", prefix_len=parts.number(32))]
)
# HTTP/1.0 is accepted too, because nginx as a proxy uses it by default.
_HTTP1 = v3.Http1ProtocolOptions(accept_http_10=True, enable_trailers=True)
# allow_connect is not set: browsers would send WebSockets by CONNECT, and their Sec-WebSocket-Key would be lost.
_HTTP2 = v3.Http2ProtocolOptions(
    max_concurrent_streams=parts.number(100),
    initial_stream_window_size=parts.STREAM_WINDOW,
    initial_connection_window_size=parts.CONNECTION_WINDOW,
)
# The last filter, which forwards requests. Its counts by upstream and status are switched off.
ROUTER = v3.HttpFilter(
    name="envoy.filters.http.router",
    typed_config=parts.pack(v3.Router(suppress_envoy_headers=True, dynamic_stats=v3.BoolValue(value=False))),
)
# Uses the tunnel's id as the upstream's server name. Envoy pools upstream connections by this name.
UPSTREAM_NAME = v3.HttpFilter(
    name="envoy.filters.http.set_filter_state",
    typed_config=parts.pack(
        v3.HttpFilterState(
            on_request_headers=[
                v3.FilterStateValue(
                    object_key=SERVER_NAME_KEY,
                    format_string=v3.SubstitutionFormatString(
                        text_format_source=parts.text("%METADATA(VIRTUAL_HOST:edge:tunnel)%"), omit_empty_values=True
                    ),
                    skip_if_empty=True,
                )
            ]
        )
    ),
)


def build_manager(settings: Settings, *filters: v3.HttpFilter) -> v3.HttpConnectionManager:
    """Return an HTTP connection manager with the fields that all public connections share."""
    limits = settings.limits
    return v3.HttpConnectionManager(
        use_remote_address=v3.BoolValue(value=True),
        internal_address_config=_NO_INTERNAL_ADDRESSES,
        skip_xff_append=True,
        generate_request_id=v3.BoolValue(value=False),
        server_header_transformation=v3.HttpConnectionManager.PASS_THROUGH,
        max_request_headers_kb=parts.number(limits.max_header_kib),
        request_headers_timeout=parts.seconds(limits.header_timeout),
        stream_idle_timeout=parts.seconds(limits.idle_timeout),
        strip_trailing_host_dot=True,
        http_protocol_options=_HTTP1,
        http2_protocol_options=_HTTP2,
        proxy_100_continue=True,  # lets the upstream reject a request before the client sends the body
        http_filters=[blocking.HTTP_FILTER, visitor_limits.build_rate_limit(limits), *filters],
        local_reply_config=_contact_reply(settings),
    )


def build_redirect_manager(settings: Settings) -> v3.Filter:
    """Return the HTTP connection manager of the port without TLS. Connections there serve only one request."""
    manager = build_manager(settings, ROUTER)
    manager.stat_prefix = "http"
    manager.rds.CopyFrom(v3.Rds(route_config_name=REDIRECTING, config_source=parts.ADS))
    manager.common_http_protocol_options.CopyFrom(
        v3.HttpProtocolOptions(idle_timeout=parts.seconds(settings.limits.header_timeout))
    )
    return v3.Filter(name=NAME, typed_config=parts.pack(manager))


def build_client_headers(settings: Settings, more: Mapping[str, str]) -> v3.HttpFilter:
    """Return the filter that replaces headers that only proxies should set (see `claims`).

    The filter removes these headers of the client, and sets the true values and the headers `more`. At this filter,
    only upgrade requests still have a `Connection` header. The filter sets it to `upgrade`. Otherwise, a proxy behind
    the tunnel would remove all headers that `Connection` lists (RFC 9110, 7.6.1).

    Some servers merge trailers into headers, so the filter removes the edge's own headers from trailers too. Other
    headers stay in trailers, because a second regular expression would take memory in each HTTP connection manager.
    """
    connection = v3.HeaderValueOption(
        header=v3.HeaderValue(key="connection", value="upgrade"), append_action=v3.HeaderValueOption.OVERWRITE_IF_EXISTS
    )
    forwarded = {
        "x-forwarded-for": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
        "x-forwarded-host": "%REQ(:AUTHORITY)%",
        "x-forwarded-proto": "https",
        "x-forwarded-port": str(settings.edge_port),
        **more,
    }
    headers = [connection, *(parts.set_header(name, value) for name, value in forwarded.items())]
    mutations = v3.Mutations(
        request_mutations=[_remove(claims.REGEX), *(v3.HeaderMutation(append=header) for header in headers)],
        request_trailers_mutations=[_remove(claims.OWN_REGEX)],
    )
    config = v3.HeaderMutationFilter(mutations=mutations)
    return v3.HttpFilter(name="envoy.filters.http.header_mutation", typed_config=parts.pack(config))


def _remove(names: str) -> v3.HeaderMutation:
    """Return the mutation that removes headers with names that match a regular expression."""
    return v3.HeaderMutation(remove_on_match=v3.HeaderMutation.RemoveOnMatch(key_matcher=parts.regex(names)))


def _contact_reply(settings: Settings) -> v3.LocalReplyConfig | None:
    """Return the configuration that adds the abuse contact to Envoy's own responses. Return None without a contact."""
    if not settings.abuse_contact:
        return None
    # Percent signs are doubled, because Envoy treats a single percent sign as the start of a command.
    text = pages.abuse_line(settings.abuse_contact).replace("%", "%%")
    return v3.LocalReplyConfig(body_format=parts.format_string(f"%LOCAL_REPLY_BODY%{text}"))
