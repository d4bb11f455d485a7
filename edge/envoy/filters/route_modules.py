"""Configures Envoy's routes for the modules of an edge's route. This file does no I/O.

The declaration of each module names the function in `edge.envoy` that configures a route for it.
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
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
def list_filters() -> Mapping[str, v3.HttpFilter]:
    """Return the filters that modules enable for Envoy's routes, by the name of the module.

    A filter is disabled unless a route enables it. It is the constant FILTER in the file of the function that
    configures routes for the module. Filters of modules that restrict visitors come first.
    """
    modules = sorted(enforced_modules.EVERY, key=lambda module: (not module.restricts_visitors, module.name))
    filters = {
        module.name: getattr(_import(module.configures_route), "FILTER", None)
        for module in modules
        if module.configures_route
    }
    return {name: http_filter for name, http_filter in filters.items() if isinstance(http_filter, v3.HttpFilter)}


@cache
def _functions() -> Mapping[str, Configure]:
    """Return the functions that configure routes, by the name of the module."""
    named = {module.name: module.configures_route for module in enforced_modules.EVERY if module.configures_route}
    return {name: find(path) for name, path in named.items()}


def find(path: str) -> Configure:
    """Return a function in `edge.envoy` by its dotted name."""
    function: Configure = getattr(_import(path), path.rpartition(".")[2])
    return function


def _import(path: str) -> ModuleType:
    """Import the file of a function in `edge.envoy` by the function's dotted name."""
    return import_module(f"edge.envoy.{path.rpartition('.')[0]}")
