"""The filter that compresses responses, which a route enables. This file does no I/O.

Envoy does not compress upgrades, or responses with Content-Encoding or `no-transform`. Envoy removes the strong ETag of
a response that it compresses.
"""

from envoy.extensions.compression.gzip.compressor.v3.gzip_pb2 import Gzip
from envoy.extensions.filters.http.compressor.v3.compressor_pb2 import (
    Compressor,
    CompressorOverrides,
    CompressorPerRoute,
    ResponseDirectionOverrides,
)

from chalicelib.model.edges.modules.compression import CompressionModule
from chalicelib.model.serving.edge_plans import Plan, RouteTarget
from edge.envoy import parts, v3

_NAME = "compression"
_LEAST = 860  # responses with fewer bytes are not compressed, because they fit into one packet anyway
_PART_OF_A_FILE = 206  # responses with this status are not compressed, because Content-Range counts uncompressed bytes
_TYPES = (  # without text/event-stream: events would wait in the compressor
    *("application/javascript", "application/json", "application/ld+json", "application/manifest+json"),
    *("application/problem+json", "application/rss+xml", "application/atom+xml", "application/wasm"),
    *("application/xhtml+xml", "application/xml", "image/svg+xml"),
    *("text/css", "text/csv", "text/html", "text/javascript", "text/markdown", "text/plain", "text/xml"),
)
# The fastest level, because visitors of all accounts share the processors.
_FAST = Gzip(compression_level=Gzip.BEST_SPEED)
FILTER = v3.HttpFilter(
    name=_NAME,
    disabled=True,
    typed_config=parts.pack(
        Compressor(
            response_direction_config=Compressor.ResponseDirectionConfig(
                common_config=Compressor.CommonDirectionConfig(
                    min_content_length=parts.number(_LEAST), content_type=_TYPES
                ),
                uncompressible_response_codes=[_PART_OF_A_FILE],
            ),
            compressor_library=v3.TypedExtensionConfig(name="gzip", typed_config=parts.pack(_FAST)),
        )
    ),
)
_ENABLED = parts.pack(
    CompressorPerRoute(overrides=CompressorOverrides(response_direction_config=ResponseDirectionOverrides()))
)


def enable(route: v3.Route, _module: CompressionModule, _plan: Plan, _target: RouteTarget) -> None:
    """Compress the responses of a route."""
    route.typed_per_filter_config[_NAME].CopyFrom(_ENABLED)
