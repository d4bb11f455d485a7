"""Configures Envoy's overload manager, which acts on too many connections and too little memory.

This file does no I/O.
"""

from edge.envoy import parts, v3
from edge.process.settings import Limits

PRESSURE = "pressure"  # the file to which control writes the used share of Envoy's connection limits
_HEAP, _INJECTED = "envoy.resource_monitors.fixed_heap", "envoy.resource_monitors.injected_resource"
_IDLE_AT_LEAST = 1  # the idle timeout in seconds when at least 90 % of the connection limit is used
_TRACKED = 20  # log2 of the bytes that a stream must hold before it can be reset


def connection_budgets(limits: Limits) -> dict[str, int]:
    """Return the connection limit of each public listener, by name. Each listener counts only its own connections."""
    return {"http": limits.max_http_connections, "https": limits.max_connections + limits.max_handshakes}


def build_manager(limits: Limits) -> v3.OverloadManager:
    """Return the overload manager.

    Near the memory limit, Envoy resets the streams that hold most memory, and finally refuses new streams. If more than
    half of the connection limit is used, Envoy shortens the idle timeout, so that new connections find room. At 90 %,
    the idle timeout is one second. Envoy's own monitor of connections triggers no actions (envoyproxy/envoy#12419). So
    control writes the used share of the limit to a file.
    """
    return v3.OverloadManager(
        refresh_interval=parts.seconds(0.25),
        resource_monitors=_monitors(limits),
        buffer_factory_config=v3.BufferFactoryConfig(minimum_account_to_track_power_of_two=_TRACKED),
        actions=[
            _action("shrink_heap", _threshold(0.8)),
            _action("reset_high_memory_stream", _build_trigger(_HEAP, 0.85, 0.95)),
            _action("stop_accepting_requests", _threshold(0.95)),
            _shrink_idle_timeouts(),
        ],
    )


def _monitors(limits: Limits) -> list[v3.ResourceMonitor]:
    """Return the resource monitors for connections, for the heap, and for the file PRESSURE."""
    connections = v3.DownstreamConnectionsConfig(
        max_active_downstream_connections=sum(connection_budgets(limits).values())
    )
    heap = v3.FixedHeapConfig(max_heap_size_bytes=limits.max_heap_mib << 20)
    pressure = v3.InjectedResourceConfig(filename=f"./{PRESSURE}")
    return [
        v3.ResourceMonitor(
            name="envoy.resource_monitors.global_downstream_max_connections", typed_config=parts.pack(connections)
        ),
        v3.ResourceMonitor(name=_HEAP, typed_config=parts.pack(heap)),
        v3.ResourceMonitor(name=_INJECTED, typed_config=parts.pack(pressure)),
    ]


def _shrink_idle_timeouts() -> v3.OverloadAction:
    idle = v3.ScaleTimersOverloadActionConfig.ScaleTimer(
        timer=v3.ScaleTimersOverloadActionConfig.HTTP_DOWNSTREAM_CONNECTION_IDLE,
        min_timeout=parts.seconds(_IDLE_AT_LEAST),
    )
    action = _action("reduce_timeouts", _build_trigger(_INJECTED, 0.5, 0.9))
    action.typed_config.CopyFrom(parts.pack(v3.ScaleTimersOverloadActionConfig(timer_scale_factors=[idle])))
    return action


def _action(name: str, trigger: v3.Trigger) -> v3.OverloadAction:
    return v3.OverloadAction(name=f"envoy.overload_actions.{name}", triggers=[trigger])


def _threshold(value: float) -> v3.Trigger:
    return v3.Trigger(name=_HEAP, threshold=v3.ThresholdTrigger(value=value))


def _build_trigger(monitor: str, start: float, end: float) -> v3.Trigger:
    return v3.Trigger(name=monitor, scaled=v3.ScaledTrigger(scaling_threshold=start, saturation_threshold=end))
