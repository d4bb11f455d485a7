"""Circuit breakers of HTTPS edge routes: tunnels with failing responses get no requests for a while."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from chalicelib.model.base import kinds
from chalicelib.model.base.records import StoredModule
from chalicelib.model.edges.edge_modules import EdgeModule, Memory


@dataclass(frozen=True, kw_only=True)
class CircuitBreakerModule(StoredModule):
    """The settings of a circuit breaker. Times are in seconds."""

    tripped_duration: int = 10
    rolling_window: int = 10
    num_buckets: int = 10
    volume_threshold: int = 10
    error_percent: int = 50

    AUDITED = ("enabled", "tripped_duration", "rolling_window", "num_buckets", "volume_threshold", "error_percent")

    @classmethod
    def from_request(cls, values: Mapping[str, Any], context: Mapping[str, str], before: Self | None) -> Self:
        named = {name: value for name, value in values.items() if name != "error_threshold_percentage"}
        return cls.of({**named, "error_percent": round(100 * values["error_threshold_percentage"])})


def _read(module: CircuitBreakerModule) -> CircuitBreakerModule | None:
    """Return the module, or None if Envoy cannot use its values."""
    numbers = (module.tripped_duration, module.rolling_window, module.num_buckets, module.volume_threshold)
    is_whole = all(1 <= number < 1 << 31 for number in numbers) and 1 <= module.error_percent <= 100
    return module if is_whole else None


MODULE = EdgeModule(
    name="circuit_breaker",
    parents=(kinds.HTTPS_EDGE_ROUTES,),
    stored=CircuitBreakerModule,
    read=_read,
    restricts_visitors=False,
    admits_ambiguous_paths=True,
    needs_plaintext=True,
    budget=300,
    memory=lambda _: Memory(cluster_kib=4.0),  # for each backend, Envoy has two clusters with outlier detection
    built_by="names.circuits.build_circuits",
)
