"""The compression of a route, as Envoy reads it."""

from chalicelib.model.edges.modules.compression import CompressionModule
from edge.envoy import v3
from edge.envoy.filters import compression
from tests.edge.envoy import messages
from tests.edge.envoy.filters.routes import PLAN, TARGET


def test_without_the_module_nothing_is_compressed() -> None:
    assert compression.FILTER.disabled
    types = messages.to_json(compression.FILTER)["typed_config"]["response_direction_config"]["common_config"]
    assert not [
        content_type
        for content_type in types["content_type"]
        if "event-stream" in content_type or "grpc" in content_type or "octet" in content_type
    ]


def test_a_route_enables_it() -> None:
    route = v3.Route()
    compression.enable(route, CompressionModule(), PLAN, TARGET)
    assert [*route.typed_per_filter_config] == [compression.FILTER.name]
