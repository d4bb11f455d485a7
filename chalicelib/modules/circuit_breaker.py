"""Circuit breakers of HTTPS edge routes. Tunnels with failing responses get no requests for a while."""

from typing import Annotated, Any

from chalicelib.http.endpoints import Call
from chalicelib.http.module import Enabled, Module
from chalicelib.model.edges.modules.circuit_breaker import MODULE, CircuitBreakerModule
from chalicelib.schema.rules import After, between, if_zero
from chalicelib.storage.records.items import Item

_MAX_SECONDS = 3600
_MAX_BUCKETS = 128
_MAX_VOLUME = 1_000_000


def _require_whole_percent(share: float) -> float:
    if not 0.01 <= share <= 1 or abs(100 * share - round(100 * share)) > 1e-6:
        raise ValueError("must be from 0.01 to 1, with at most two decimal places")
    return share


_Seconds = Annotated[int, between(1, _MAX_SECONDS), if_zero(10)]
_Share = Annotated[
    float, After(_require_whole_percent, {"minimum": 0.01, "maximum": 1, "multipleOf": 0.01}), if_zero(0.5)
]


class CircuitBreaker(Enabled):
    """Stops requests to tunnels with failing responses for some time.

    Each edge host counts the responses of each tunnel of the route separately. At the end of a window, a tunnel with
    too many failures is tripped: it gets no requests for some time. A failure is a status of 500 or above, or no
    response. While all tunnels of a backend are tripped, the edge answers its requests with 503. Backends that are HTTP
    responses are never tripped.
    """

    tripped_duration: _Seconds = 10
    f"""Seconds for which a tunnel gets no requests, at most {_MAX_SECONDS:,}. Rounded up to whole windows."""

    rolling_window: _Seconds = 10
    f"""Seconds in a window, at most {_MAX_SECONDS:,}. Windows follow each other and do not overlap."""

    num_buckets: Annotated[int, between(1, _MAX_BUCKETS), if_zero(10)] = 10
    """Stored and shown, but without effect: a window is always one bucket."""

    volume_threshold: Annotated[int, between(1, _MAX_VOLUME), if_zero(10)] = 10
    f"""The least number of responses in a window for which a tunnel can be tripped, at most {_MAX_VOLUME:,}."""

    error_threshold_percentage: _Share = 0.5
    """Share of failures in a window at which a tunnel is tripped: from 0.01 to 1, with two decimal places."""


def _build_response(module: CircuitBreakerModule, route: Item, call: Call) -> dict[str, Any]:
    settings = {name: value for name, value in vars(module).items() if name != "error_percent"}
    return {**settings, "error_threshold_percentage": module.error_percent / 100}


MODULES = tuple(
    Module(
        path=path,
        shape=CircuitBreaker,
        stored=MODULE.stored,
        to_response=_build_response,
    )
    for path in MODULE.paths
)
