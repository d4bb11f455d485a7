"""Envoy's overload manager, against too many connections and too little memory. Pure."""

from collections.abc import Mapping

from edge.envoy import json_parts as parts
from edge.envoy.resources import Json
from edge.process.settings import Limits

PRESSURE = "pressure"  # the file with the share of Envoy's connection limits in use, which control writes
_HEAP, _INJECTED = "envoy.resource_monitors.fixed_heap", "envoy.resource_monitors.injected_resource"
_IDLE_AT_LEAST = "1s"  # idle timeout when connections are scarce
_TRACKED = 20  # only streams that hold 2**20 bytes can be reset


def connection_budgets(limits: Limits) -> dict[str, int]:
    """Return the connection limit of each public listener, by name. The limits are independent."""
    return {"http": limits.max_http_connections, "https": limits.max_connections + limits.max_handshakes}


def build_manager(limits: Limits) -> Json:
    """Return the overload manager.

    Near the memory limit Envoy resets the streams that hold most memory, and finally refuses new ones. Above half of
    the connection limit the idle timeout shrinks, down to a second at 90 %, so that idle connections do not keep others
    out. Envoy's own connection monitor triggers no actions (envoyproxy/envoy#12419), so control writes the number.
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
    """Return the monitors of connections, of the heap, and of control's pressure file."""
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
