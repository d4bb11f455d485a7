"""Envoy's overload manager, for when there is too much: too many connections, or too little memory. Pure."""

from edge.process.settings import Limits
from edge.traffic import parts
from edge.traffic.resources import Json

_HEAP = "envoy.resource_monitors.fixed_heap"
_TRACKED = 20  # a stream is worth ending when it holds a MiB (2 to this power)


def budgets(limits: Limits) -> dict[str, int]:
    """Return the most connections of each public listener, by its name; those of one never use up the other's."""
    return {"http": limits.max_http_connections, "https": limits.max_connections + limits.max_handshakes}


def manager(limits: Limits) -> Json:
    """Return the limits of one Envoy: near that of memory the streams that hold most end, and last of all new ones."""
    connections = parts.typed(
        "envoy.resource_monitors.global_downstream_max_connections",
        f"{parts.TYPE}.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
        max_active_downstream_connections=sum(budgets(limits).values()),
    )
    heap = parts.typed(
        _HEAP,
        f"{parts.TYPE}.extensions.resource_monitors.fixed_heap.v3.FixedHeapConfig",
        max_heap_size_bytes=limits.max_heap_mib << 20,
    )
    return {
        "resource_monitors": [connections, heap],
        "buffer_factory_config": {"minimum_account_to_track_power_of_two": _TRACKED},
        "actions": [
            _action("shrink_heap", {"threshold": {"value": 0.8}}),
            _action("reset_high_memory_stream", {"scaled": {"scaling_threshold": 0.85, "saturation_threshold": 0.95}}),
            _action("stop_accepting_requests", {"threshold": {"value": 0.95}}),
        ],
    }


def _action(name: str, trigger: dict[str, Json]) -> Json:
    return {"name": f"envoy.overload_actions.{name}", "triggers": [{"name": _HEAP, **trigger}]}
