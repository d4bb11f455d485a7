"""Circuit breakers as the edge obeys them."""

from typing import Any

import pytest

from chalicelib.model.base import kinds
from chalicelib.model.edges.served import Modules

CIRCUIT: dict[str, Any] = {
    "enabled": True,
    "tripped_duration": 1,
    "rolling_window": 1,
    "num_buckets": 1,
    "volume_threshold": 1,
    "error_percent": 100,
}


@pytest.mark.parametrize("name", sorted(CIRCUIT.keys() - {"enabled"}))
@pytest.mark.parametrize("value", [0, -1, 1 << 31, "1", None])
def test_a_circuit_breaker_that_envoy_cannot_obey_closes_its_route(name: str, value: object) -> None:
    of = Modules.of({"circuit_breaker": {**CIRCUIT, name: value}}, kinds.HTTPS_EDGE_ROUTES)
    assert (of.values.get("circuit_breaker"), of.unenforced) == (None, ("circuit_breaker",))
