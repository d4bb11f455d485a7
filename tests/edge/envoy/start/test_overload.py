"""The overload manager, which shortens the idle timeout when connections are scarce."""

from edge.envoy.start import overload
from edge.process.settings import Limits
from tests.edge.envoy import messages


def test_connections_that_are_scarce_may_be_idle_for_less() -> None:
    actions = messages.to_json(overload.build_manager(Limits()))["actions"]
    (action,) = [candidate for candidate in actions if "typed_config" in candidate]
    (trigger,) = action["triggers"]
    assert action["name"] == "envoy.overload_actions.reduce_timeouts"
    assert action["typed_config"]["timer_scale_factors"] == [
        {"timer": "HTTP_DOWNSTREAM_CONNECTION_IDLE", "min_timeout": "1s"}
    ]
    assert trigger == {
        "name": "envoy.resource_monitors.injected_resource",
        "scaled": {"scaling_threshold": 0.5, "saturation_threshold": 0.9},
    }
