"""The filter that compresses responses, which a route enables. Pure.

Envoy compresses neither responses with Content-Encoding or `no-transform`, nor upgrades. It removes strong ETags.
"""

from chalicelib.model.edges.modules.compression import CompressionModule
from chalicelib.model.serving.edge_plans import Plan, RouteTarget
from edge.envoy import parts, v3

_NAME = "compression"
_LEAST = 860  # bytes of the smallest compressed response: smaller ones fit into one packet anyway
_PART_OF_A_FILE = 206  # a response with this status has Content-Range, which counts uncompressed bytes
_TYPES = (  # text/event-stream is missing on purpose: events would wait in the compressor
    *("application/javascript", "application/json", "application/ld+json", "application/manifest+json"),
    *("application/problem+json", "application/rss+xml", "application/atom+xml", "application/wasm"),
    *("application/xhtml+xml", "application/xml", "image/svg+xml"),
    *("text/css", "text/csv", "text/html", "text/javascript", "text/markdown", "text/plain", "text/xml"),
)
_FAST = v3.Gzip(compression_level=v3.Gzip.BEST_SPEED)  # because visitors of all accounts share the processors
FILTER = v3.HttpFilter(
    name=_NAME,
    disabled=True,
    typed_config=parts.pack(
        v3.Compressor(
            response_direction_config=v3.Compressor.ResponseDirectionConfig(
                common_config=v3.Compressor.CommonDirectionConfig(
                    min_content_length=parts.number(_LEAST), content_type=_TYPES
                ),
                uncompressible_response_codes=[_PART_OF_A_FILE],
            ),
            compressor_library=v3.TypedExtensionConfig(name="gzip", typed_config=parts.pack(_FAST)),
        )
    ),
)
_ENABLED = parts.pack(
    v3.CompressorPerRoute(overrides=v3.CompressorOverrides(response_direction_config=v3.ResponseDirectionOverrides()))
)


def enable(route: v3.Route, _module: CompressionModule, _plan: Plan, _target: RouteTarget) -> None:
    """Compress the responses of a route."""
    route.typed_per_filter_config[_NAME].CopyFrom(_ENABLED)
