"""Envoy's overload manager, against too many connections and too little memory. Pure."""

from envoy.config.overload.v3.overload_pb2 import (
    BufferFactoryConfig,
    OverloadAction,
    OverloadManager,
    ResourceMonitor,
    ScaledTrigger,
    ScaleTimersOverloadActionConfig,
    ThresholdTrigger,
    Trigger,
)
from envoy.extensions.resource_monitors.downstream_connections.v3.downstream_connections_pb2 import (
    DownstreamConnectionsConfig,
)
from envoy.extensions.resource_monitors.fixed_heap.v3.fixed_heap_pb2 import FixedHeapConfig
from envoy.extensions.resource_monitors.injected_resource.v3.injected_resource_pb2 import InjectedResourceConfig

from edge.envoy import parts
from edge.process.settings import Limits

PRESSURE = "pressure"  # the file with the share of Envoy's connection limits in use, which control writes
_HEAP, _INJECTED = "envoy.resource_monitors.fixed_heap", "envoy.resource_monitors.injected_resource"
_IDLE_AT_LEAST = 1  # seconds of idle timeout when connections are scarce
_TRACKED = 20  # only streams that hold 2**20 bytes can be reset


def connection_budgets(limits: Limits) -> dict[str, int]:
    """Return the connection limit of each public listener, by name. The limits are independent."""
    return {"http": limits.max_http_connections, "https": limits.max_connections + limits.max_handshakes}


def build_manager(limits: Limits) -> OverloadManager:
    """Return the overload manager.

    Near the memory limit Envoy resets the streams that hold most memory, and finally refuses new ones. Above half of
    the connection limit the idle timeout shrinks, down to a second at 90 %, so that idle connections do not keep others
    out. Envoy's own connection monitor triggers no actions (envoyproxy/envoy#12419), so control writes the number.
    """
    return OverloadManager(
        refresh_interval=parts.seconds(0.25),
        resource_monitors=_monitors(limits),
        buffer_factory_config=BufferFactoryConfig(minimum_account_to_track_power_of_two=_TRACKED),
        actions=[
            _action("shrink_heap", _threshold(0.8)),
            _action("reset_high_memory_stream", _scaled(_HEAP, 0.85, 0.95)),
            _action("stop_accepting_requests", _threshold(0.95)),
            _shrink_idle_timeouts(),
        ],
    )


def _monitors(limits: Limits) -> list[ResourceMonitor]:
    """Return the monitors of connections, of the heap, and of control's pressure file."""
    connections = DownstreamConnectionsConfig(
        max_active_downstream_connections=sum(connection_budgets(limits).values())
    )
    heap = FixedHeapConfig(max_heap_size_bytes=limits.max_heap_mib << 20)
    pressure = InjectedResourceConfig(filename=f"./{PRESSURE}")
    return [
        ResourceMonitor(
            name="envoy.resource_monitors.global_downstream_max_connections", typed_config=parts.pack(connections)
        ),
        ResourceMonitor(name=_HEAP, typed_config=parts.pack(heap)),
        ResourceMonitor(name=_INJECTED, typed_config=parts.pack(pressure)),
    ]


def _shrink_idle_timeouts() -> OverloadAction:
    idle = ScaleTimersOverloadActionConfig.ScaleTimer(
        timer=ScaleTimersOverloadActionConfig.HTTP_DOWNSTREAM_CONNECTION_IDLE,
        min_timeout=parts.seconds(_IDLE_AT_LEAST),
    )
    action = _action("reduce_timeouts", _scaled(_INJECTED, 0.5, 0.9))
    action.typed_config.CopyFrom(parts.pack(ScaleTimersOverloadActionConfig(timer_scale_factors=[idle])))
    return action


def _action(name: str, trigger: Trigger) -> OverloadAction:
    return OverloadAction(name=f"envoy.overload_actions.{name}", triggers=[trigger])


def _threshold(value: float) -> Trigger:
    return Trigger(name=_HEAP, threshold=ThresholdTrigger(value=value))


def _scaled(monitor: str, start: float, end: float) -> Trigger:
    return Trigger(name=monitor, scaled=ScaledTrigger(scaling_threshold=start, saturation_threshold=end))
