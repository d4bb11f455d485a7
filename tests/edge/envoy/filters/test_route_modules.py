"""The functions that the declarations of modules name."""

import inspect
from typing import Any

import pytest

from chalicelib.model.edges.edge_modules import EdgeModule
from chalicelib.model.edges.enforced import enforced_modules
from edge.envoy.filters import route_modules


@pytest.mark.parametrize("module", enforced_modules.EVERY, ids=lambda it: it.name)
def test_a_declaration_names_a_function_of_the_edge(module: EdgeModule[Any, Any]) -> None:
    assert not (module.configures_route and module.built_by)
    if module.configures_route:
        parameters = inspect.signature(route_modules.find(module.configures_route)).parameters
        assert len(parameters) == 4
    elif module.built_by:
        assert callable(route_modules.find(module.built_by))
