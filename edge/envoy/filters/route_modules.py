"""Configures Envoy's routes for the modules of an edge's route. Pure.

The declaration of each module names the function in `edge.envoy` that configures a route for it.
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

from chalicelib.model.edges.enforced import enforced_modules
from chalicelib.model.serving.edge_plans import Plan, RouteTarget
from edge.envoy import v3

Configure: TypeAlias = Callable[[v3.Route, Any, Plan, RouteTarget], None]


def configure(route: v3.Route, plan: Plan, target: RouteTarget) -> None:
    """Configure one of Envoy's routes to an upstream for all enabled modules of the edge's route."""
    functions = _functions()
    for name, value in target.route.modules.values.items():
        if name in functions:
            functions[name](route, value, plan, target)


@cache
def _functions() -> Mapping[str, Configure]:
    """Return the functions that configure routes, by the name of the module."""
    named = {module.name: module.configures_route for module in enforced_modules.EVERY if module.configures_route}
    return {name: find(path) for name, path in named.items()}


def find(path: str) -> Configure:
    """Return a function in `edge.envoy` by its dotted name."""
    file, _, name = path.rpartition(".")
    function: Configure = getattr(import_module(f"edge.envoy.{file}"), name)
    return function
