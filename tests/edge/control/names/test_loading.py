"""The bounds of loaded names, by the settings."""

from edge.control.names.loading import find_bounds
from edge.plan.loaded import Bounds
from edge.process.settings import Limits


def test_each_setting_has_its_bound_and_a_scope_outlives_its_connections() -> None:
    limits = Limits(
        max_loaded_mib=3,
        max_loaded_names_per_account=7,
        max_loaded_names_per_wildcard=5,
        name_period=11,
        max_connection_duration=600,
    )
    assert find_bounds(limits) == Bounds(3 * 1024, 7, 5, 11, 720)
