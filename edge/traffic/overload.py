"""Envoy's overload manager, for when there is too much: too many connections, or too little memory. Pure."""

from collections.abc import Mapping

from edge.process.settings import Limits
from edge.traffic import parts
from edge.traffic.resources import Json

PRESSURE = "pressure"  # the file in which control says how near Envoy is to its bounds of connections
_HEAP, _INJECTED = "envoy.resource_monitors.fixed_heap", "envoy.resource_monitors.injected_resource"
_IDLE_AT_LEAST = "1s"  # for which a connection may ask nothing when they are scarce
_TRACKED = 20  # a stream is worth ending when it holds a MiB (2 to this power)


def connection_budgets(limits: Limits) -> dict[str, int]:
    """Return the most connections of each public listener, by its name; those of one never use up the other's."""
    return {"http": limits.max_http_connections, "https": limits.max_connections + limits.max_handshakes}


def build_manager(limits: Limits) -> Json:
    """Return the limits of one Envoy: near that of memory the streams that hold most end, and last of all new ones.

    Above half of the bound of connections the idle timeout shrinks, to a second at nine tenths: else connections that
    ask nothing would keep others out. Envoy's own monitor of connections triggers nothing (envoyproxy/envoy#12419), so
    that control says how many there are.
    """
    return {
        "refresh_interval": "0.25s",
        "resource_monitors": _monitors(limits),
        "buffer_factory_config": {"minimum_account_to_track_power_of_two": _TRACKED},
        "actions": [
            _action("shrink_heap", {"threshold": {"value": 0.8}}),
            _action("reset_high_memory_stream", {"scaled": {"scaling_threshold": 0.85, "saturation_threshold": 0.95}}),
            _action("stop_accepting_requests", {"threshold": {"value": 0.95}}),
            _shrink_idle_timeouts(),
        ],
    }


def _monitors(limits: Limits) -> list[Json]:
    """Return what is watched: the number of connections, the heap, and what control writes of connections."""
    connections = parts.extension(
        "envoy.resource_monitors.global_downstream_max_connections",
        f"{parts.TYPE}.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
        max_active_downstream_connections=sum(connection_budgets(limits).values()),
    )
    heap = parts.extension(
        _HEAP,
        f"{parts.TYPE}.extensions.resource_monitors.fixed_heap.v3.FixedHeapConfig",
        max_heap_size_bytes=limits.max_heap_mib << 20,
    )
    pressure = parts.extension(
        _INJECTED,
        f"{parts.TYPE}.extensions.resource_monitors.injected_resource.v3.InjectedResourceConfig",
        filename=f"./{PRESSURE}",
    )
    return [connections, heap, pressure]


def _shrink_idle_timeouts() -> Json:
    idle: Json = {"timer": "HTTP_DOWNSTREAM_CONNECTION_IDLE", "min_timeout": _IDLE_AT_LEAST}
    scale: Json = {
        "@type": f"{parts.TYPE}.config.overload.v3.ScaleTimersOverloadActionConfig",
        "timer_scale_factors": [idle],
    }
    scarce: Json = {"scaling_threshold": 0.5, "saturation_threshold": 0.9}
    return {**_action("reduce_timeouts", {"scaled": scarce}, _INJECTED), "typed_config": scale}


def _action(name: str, trigger: Mapping[str, Json], monitor: str = _HEAP) -> dict[str, Json]:
    return {"name": f"envoy.overload_actions.{name}", "triggers": [{"name": monitor, **trigger}]}
