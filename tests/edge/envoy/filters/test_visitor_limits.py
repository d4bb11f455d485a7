"""The request limit of one visitor, as Envoy's token buckets."""

import pytest

from edge.envoy.filters import visitor_limits
from edge.process.settings import Limits
from tests.edge.envoy import messages


@pytest.mark.parametrize(
    ("max_requests", "bucket"),
    [(1, (5, 1, "1s")), (10, (50, 1, "0.100s")), (15, (75, 2, "0.133s")), (1000, (5000, 100, "0.100s"))],
)
def test_a_visitor_may_ask_evenly_and_for_some_seconds_at_once(max_requests: int, bucket: tuple[int, int, str]) -> None:
    config = messages.to_json(visitor_limits.build_rate_limit(Limits(max_requests_per_visitor=max_requests)))[
        "typed_config"
    ]
    (descriptor,) = config["descriptors"]
    assert tuple(descriptor["token_bucket"].values()) == bucket
    assert config["token_bucket"]["fill_interval"] == bucket[2]
