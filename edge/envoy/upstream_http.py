"""Builds the HTTP options of clusters, for connections from Envoy to upstreams. This file does no I/O."""

from edge.envoy import parts, v3

OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"  # the key of the options in a cluster
_IDLE_TIMEOUT, _MAX_HEADERS = parts.seconds(60), parts.number(1000)
_SHARED = v3.HttpProtocolOptions(idle_timeout=_IDLE_TIMEOUT, max_headers_count=_MAX_HEADERS)
_OF_ONE_VISITOR = v3.HttpProtocolOptions(  # idle connections are closed soon, because each occupies an SSH channel
    idle_timeout=parts.seconds(5), max_headers_count=_MAX_HEADERS
)
_OF_ONE_REQUEST = v3.HttpProtocolOptions(
    idle_timeout=_IDLE_TIMEOUT, max_headers_count=_MAX_HEADERS, max_requests_per_connection=parts.number(1)
)
_HTTP1 = v3.UpstreamProtocolOptions.ExplicitHttpConfig(
    http_protocol_options=v3.Http1ProtocolOptions(enable_trailers=True)
)
_HTTP1_WITHOUT_TRAILERS = v3.UpstreamProtocolOptions.ExplicitHttpConfig(http_protocol_options=v3.Http1ProtocolOptions())
_HTTP2 = v3.UpstreamProtocolOptions.ExplicitHttpConfig(
    http2_protocol_options=v3.Http2ProtocolOptions(
        initial_stream_window_size=parts.STREAM_WINDOW, initial_connection_window_size=parts.CONNECTION_WINDOW
    )
)


def _pack(version: v3.UpstreamProtocolOptions.ExplicitHttpConfig, common: v3.HttpProtocolOptions) -> v3.Any:
    return parts.pack(v3.UpstreamProtocolOptions(common_http_protocol_options=common, explicit_http_config=version))


SHARED_HTTP1, VISITOR_HTTP1 = _pack(_HTTP1, _SHARED), _pack(_HTTP1, _OF_ONE_VISITOR)
SHARED_HTTP2 = _pack(_HTTP2, _SHARED)
VISITOR_HTTP2, SINGLE_REQUEST_HTTP1 = _pack(_HTTP2, _OF_ONE_VISITOR), _pack(_HTTP1_WITHOUT_TRAILERS, _OF_ONE_REQUEST)
