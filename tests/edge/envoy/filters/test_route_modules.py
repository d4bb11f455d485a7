"""The functions that the declarations of modules name."""

import inspect
from typing import Any

import pytest

from chalicelib.model.edges.edge_modules import EdgeModule
from chalicelib.model.edges.enforced import enforced_modules
from edge.envoy import v3
from edge.envoy.filters import route_modules
from edge.envoy.names import managers
from tests.edge.drawn_worlds import SAMPLED
from tests.edge.envoy import messages
from tests.edge.envoy.filters.routes import PLAN, TARGET
from tests.edge.envoy.values import SETTINGS


@pytest.mark.parametrize("module", enforced_modules.EVERY, ids=lambda enforced_module: enforced_module.name)
def test_a_declaration_names_a_function_of_the_edge(module: EdgeModule[Any, Any]) -> None:
    assert not (module.configures_route and module.built_by)
    if module.configures_route:
        parameters = inspect.signature(route_modules.find(module.configures_route)).parameters
        assert len(parameters) == 4
    elif module.built_by:
        assert callable(route_modules.find(module.built_by))


def test_a_filter_of_a_module_acts_only_on_routes_that_enable_it() -> None:
    for name, http_filter in route_modules.list_filters().items():
        assert http_filter.disabled, f"the filter of the module {name} is not disabled: it would act on all routes"


@pytest.mark.parametrize("name", SAMPLED)
def test_a_route_configures_only_filters_that_envoy_has(name: str) -> None:
    (module,) = (candidate for candidate in enforced_modules.EVERY if candidate.name == name)
    manager = messages.to_json(managers.build_names_manager(SETTINGS))["typed_config"]
    names = {http_filter["name"] for http_filter in manager["http_filters"]}
    for value in SAMPLED[name] if module.configures_route else ():
        route = v3.Route()
        route_modules.find(module.configures_route)(route, value, PLAN, TARGET)
        unknown = {*route.typed_per_filter_config} - names
        assert not unknown, (
            f"the manager lacks the filters {unknown} of the module {name}: name them FILTER in its file"
        )
