"""The HTTP of upstream connections: which are shared, and how long they stay."""

from typing import Any

import pytest

from edge.envoy import upstream_http, v3
from tests.edge.envoy import messages

WINDOWS = {"initial_stream_window_size": 1 << 20, "initial_connection_window_size": 4 << 20}


@pytest.mark.parametrize(
    ("options", "idle", "more", "version"),
    [
        (upstream_http.SHARED_HTTP1, "60s", {}, {"http_protocol_options": {"enable_trailers": True}}),
        (upstream_http.VISITOR_HTTP1, "5s", {}, {"http_protocol_options": {"enable_trailers": True}}),
        (upstream_http.VISITOR_HTTP2, "5s", {}, {"http2_protocol_options": WINDOWS}),
        (
            upstream_http.SINGLE_REQUEST_HTTP1,
            "60s",
            {"max_requests_per_connection": 1},
            {"http_protocol_options": {}},
        ),
    ],
)
def test_the_options_of_each_kind_of_connection(options: v3.Any, idle: str, more: Any, version: Any) -> None:
    assert messages.to_json(options) == {
        "@type": f"type.googleapis.com/{upstream_http.OPTIONS}",
        "common_http_protocol_options": {"idle_timeout": idle, "max_headers_count": 1000, **more},
        "explicit_http_config": version,
    }
