"""The characters that a module may take of a response, which `make openapi` computes from its shape."""

from dataclasses import replace
from typing import Annotated, Any

import pytest
from pydantic import Field

from chalicelib import modules
from chalicelib.http.module import Enabled, Module
from chalicelib.model.edges.enforced import enforced_modules
from chalicelib.model.edges.modules.compression import MODULE, CompressionModule
from chalicelib.schema.rules import entries, form, max_bytes, max_encoded
from infra.build.openapi import budgets
from infra.build.openapi.budgets import OverBudget

_FIXED = 7 + 6 + 2 + (7 + 6 + 25) + (5 + 6)  # the names "planted", "enabled" and "field", and a boolean


def planted(rule: Any, budget: int) -> None:
    """Check the budget of a planted module of routes with one field."""
    described = Annotated[rule, Field(description="A field.")]
    shape = type("Planted", (Enabled,), {"__annotations__": {"field": described}, "field": None})
    module = Module(path=MODULE.paths[0].replace("compression", "planted"), shape=shape, stored=CompressionModule)
    budgets.check([replace(MODULE, name="planted", budget=budget)], [module])


def test_every_module_keeps_its_budget() -> None:
    budgets.check(enforced_modules.EVERY, modules.load_all())


@pytest.mark.parametrize(
    ("rule", "size"),
    [
        (Annotated[str, max_bytes(10)], 4 + 10 * 7),
        (Annotated[str, form("[a-z]+", "must be letters", most=10)], 4 + 10),
        (Annotated[str, form("[ -~]{1,10}", "must be printable")], 4 + 10 * 4),
        (Annotated[list[Annotated[str, max_bytes(1)]], entries(0, 3)], 2 + 3 * (1 + 4 + 7)),
        (Annotated[dict[str, Any], max_encoded(77)], 77),
    ],
)
def test_a_module_that_exceeds_its_budget_is_named_with_the_excess(rule: Any, size: int) -> None:
    planted(rule, _FIXED + size)
    with pytest.raises(OverBudget) as error:
        planted(rule, _FIXED + size - 5)
    budget = f"{_FIXED + size - 5:,}"
    assert str(error.value) == f"The module planted exceeds its budget of {budget} characters by 5."


def test_the_modules_of_a_route_fit_together() -> None:
    every = {module.name: module for module in enforced_modules.EVERY}
    total = sum(it.budget for it in every.values() if MODULE.holders[0] in it.holders) - every["basic_auth"].budget
    room = budgets.ROUTE - budgets.OWN_FIELDS - total
    assert room >= 0
    budgets.check([*every.values(), replace(MODULE, name="planted", budget=room)], [])
    budgets.check([*every.values(), replace(MODULE, name="planted", budget=9_000, excludes=("oauth",))], [])
    others = [replace(it, excludes=("planted",)) if it.name == "oauth" else it for it in every.values()]
    budgets.check([*others, replace(MODULE, name="planted", budget=9_000)], [])
    with pytest.raises(OverBudget) as error:
        budgets.check([*every.values(), replace(MODULE, name="planted", budget=room + 5)], [])
    sentence = f"The modules of a route have budgets of {total + room + 5:,} characters together: 5 more than fit."
    assert str(error.value) == sentence


def test_a_field_without_a_limit_is_refused() -> None:
    with pytest.raises(OverBudget, match="planted has a field without a limit"):
        planted(str, 1_000_000)
