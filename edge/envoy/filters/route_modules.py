"""Configures Envoy's routes for their modules. The declaration of a module names its function here. Pure."""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

from chalicelib.model.edges.enforced import enforced_modules
from chalicelib.model.serving.edge_plans import Plan, RouteTarget
from edge.envoy import v3

Configure: TypeAlias = Callable[[v3.Route, Any, Plan, RouteTarget], None]


def configure(route: v3.Route, plan: Plan, target: RouteTarget) -> None:
    """Configure a route to an upstream for all enabled modules of its target."""
    functions = _functions()
    for name, value in target.route.modules.values.items():
        if name in functions:
            functions[name](route, value, plan, target)


@cache
def _functions() -> Mapping[str, Configure]:
    """Return the functions by the names of modules."""
    named = {module.name: module.configures_route for module in enforced_modules.EVERY if module.configures_route}
    return {name: find(path) for name, path in named.items()}


def find(path: str) -> Configure:
    """Return a function in `edge.envoy` by its dotted name."""
    file, _, name = path.rpartition(".")
    function: Configure = getattr(import_module(f"edge.envoy.{file}"), name)
    return function
