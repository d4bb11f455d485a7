"""Checks that a response with all routes and modules of an edge is never longer than Lambda permits.

Lambda counts the response as JSON inside a JSON string, so a quotation mark takes several characters. An edge can have
a hundred routes. So each route has a budget of characters, and each of its modules has a part of this budget. How many
characters a module can take follows from the limits of the fields in its request.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from chalicelib.edges.routes import MAX_ROUTES
from chalicelib.http.module import Module
from chalicelib.model.base import kinds
from chalicelib.model.edges.edge_modules import EdgeModule
from chalicelib.schema import json_schema, sizes
from infra.build.openapi import schemas
from infra.build.openapi.schemas import REF, Words

_LAMBDA = 6 << 20  # characters that Lambda accepts in a response
_EDGE = 60_000  # characters that the response for an HTTPS edge has besides its routes
ROUTE = (_LAMBDA - _EDGE) // MAX_ROUTES
# characters that a route takes without its modules: metadata, description, match, and the ids and names of its fields
OWN_FIELDS = 23_000
_REFERENCE = 200  # characters of the object Ref, which responses contain instead of an id
_UNBOUNDED = 10**9
# how many characters a character of a text becomes as JSON inside a JSON string
_COSTS = {"\0": 7, "é": 7, '"': 4, "\\": 4}
_BEGINNINGS = ("", "/", "a")


class OverBudget(Exception):
    """A module, or all modules of a route together, can take more characters of a response than their budget."""


def check(declared: Iterable[EdgeModule[Any, Any]], modules: Iterable[Module]) -> None:
    """Raise OverBudget if a module, or all modules of a route together, can exceed their budget."""
    budgets = {module.name: module for module in declared}
    for module in modules:
        if found := budgets.get(module.name):
            _check_one(module, found.budget)
    _check_sum([module for module in budgets.values() if kinds.HTTPS_EDGE_ROUTES in module.holders])


def _check_sum(modules: Iterable[EdgeModule[Any, Any]]) -> None:
    """Check that a route with all its modules fits into the budget of a route.

    Of modules that exclude each other, only the largest budget counts.
    """
    budget, counted = ROUTE - OWN_FIELDS, list[EdgeModule[Any, Any]]()
    for module in sorted(modules, key=lambda it: it.budget, reverse=True):
        if not any(map(module.is_excluded_by, counted)):
            counted.append(module)
    total = sum(module.budget for module in counted)
    if total > budget:
        raise OverBudget(
            f"The modules of a route have budgets of {total:,} characters together: {total - budget:,} more than fit."
        )


def _check_one(module: Module, budget: int) -> None:
    if (excess := largest(module) - budget) >= _UNBOUNDED // 2:
        raise OverBudget(f"The module {module.name} has a field without a limit: its budget is {budget:,}.")
    if excess > 0:
        raise OverBudget(f"The module {module.name} exceeds its budget of {budget:,} characters by {excess:,}.")


def largest(module: Module) -> int:
    """Return the most characters of a response that a module can take, including its name."""
    made = schemas.of({(module.shape, "validation"): module.name})
    return len(module.name) + 6 + _largest(made[module.name], made)


def _largest(words: Words, made: Mapping[str, Words]) -> int:
    if limit := words.get(json_schema.MAX_ENCODED):
        return int(limit)
    if "$ref" in words:
        return _largest(made[words["$ref"].removeprefix(REF)], made)
    if choices := words.get("allOf") or words.get("anyOf") or words.get("oneOf"):
        return max(_largest(it, made) for it in choices)
    if "enum" in words or "const" in words:
        values = words.get("enum", [words.get("const")])
        return max(sizes.encoded(json.dumps(it)) for it in values)
    match words.get("type"):
        case "string":
            return _largest_text(words)
        case "array":
            return 2 + int(words.get("maxItems", _UNBOUNDED)) * (1 + _largest(words["items"], made))
        case "object":
            return 2 + _largest_object(words, made)
    return 25  # more characters than any number, boolean or null takes


def _largest_text(words: Words) -> int:
    """Return the most characters of a response that a text of this schema can take.

    It assumes a text of the characters that take most, among the characters that the schema's pattern allows.
    """
    pattern = words.get("pattern", "")
    if pattern.endswith("_[0-9A-Za-z]{27}$"):
        return _REFERENCE
    quantified = re.search(r"\{\d+,(\d+)\}\)*\$$", pattern)
    length = words.get("maxLength") or (int(quantified[1]) if quantified else _UNBOUNDED)
    costs = [cost for sign, cost in _COSTS.items() if any(re.search(pattern, f"{it}{sign}") for it in _BEGINNINGS)]
    return 4 + int(length) * max(costs, default=1)


def _largest_object(words: Words, made: Mapping[str, Words]) -> int:
    fields = words.get("properties", {})
    found = sum(len(name) + 6 + _largest(field, made) for name, field in fields.items())
    if others := words.get("additionalProperties"):
        names = _largest_text(words.get("propertyNames", {}))
        found += int(words.get("maxProperties", _UNBOUNDED)) * (names + 2 + _largest(others, made))
    return found
