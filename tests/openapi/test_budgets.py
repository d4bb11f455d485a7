"""The sizes that declarations may reach, which `make openapi` computes from the shapes of requests."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import pytest
from pydantic import Field

from chalicelib import edges, modules, resources
from chalicelib.http.module import Enabled, Module
from chalicelib.http.resource import EditableResource, Resource
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import Kind
from chalicelib.model.base.records import StoredModule
from chalicelib.model.edges.enforced import enforced_modules
from chalicelib.model.edges.modules.compression import MODULE
from chalicelib.schema.rules import entries, form, max_bytes, max_encoded
from infra.build.openapi import budgets
from infra.build.openapi.budgets import OverBudget

_FIXED = 7 + 6 + 2 + (7 + 6 + 25) + (5 + 6)  # the names "planted", "enabled" and "field", and a boolean
_DECLARED = {module.name: module for module in enforced_modules.EVERY}
_RESOURCES: tuple[Resource, ...] = (*resources.load_all(), *edges.load_all())


@dataclass(frozen=True)
class Plant:
    """A module whose fields have certain rules. Events show them only if it is `audited`."""

    rules: Sequence[Any]
    budget: int
    kind: Kind = kinds.HTTPS_EDGE_ROUTES
    audited: bool = False
    excludes: tuple[str, ...] = ()

    def check(self) -> None:
        """Check all declarations, and the planted one."""
        rules = {
            f"field{number or ''}": Annotated[rule, Field(description="A field.")]
            for number, rule in enumerate(self.rules)
        }
        shape = type("Planted", (Enabled,), {"__annotations__": rules, **dict.fromkeys(rules)})
        stored_type = type("Stored", (StoredModule,), {"AUDITED": ("enabled", *(rules if self.audited else ()))})
        declared = replace(MODULE, name="planted", parents=(self.kind,), budget=self.budget, excludes=self.excludes)
        module = Module(path=f"{self.kind.item_path}/planted", shape=shape, stored=stored_type)
        budgets.check([*enforced_modules.EVERY, declared], [*modules.load_all(), module], _RESOURCES)


def message_of(plant: Plant) -> str:
    with pytest.raises(OverBudget) as error:
        plant.check()
    return str(error.value)


def room(kind: Kind, subject: str) -> int:
    """Return how much more a response, record or event of a kind could take."""
    resource = next(resource for resource in _RESOURCES if resource.kind is kind)
    assert isinstance(resource, EditableResource)
    kind_modules = [module for module in modules.load_all() if module.home == kind.item_path]
    (total,) = (
        total
        for total in budgets.totals(resource, kind_modules, _DECLARED)
        if total.subject.startswith(f"The {subject} ")
    )
    return total.limit - total.base - sum(total.modules.values())


def test_every_declaration_keeps_its_budget() -> None:
    budgets.check(enforced_modules.EVERY, modules.load_all(), _RESOURCES)


@pytest.mark.parametrize(
    ("rule", "size"),
    [
        (Annotated[str, max_bytes(10)], 4 + 10 * 7),
        (Annotated[str, form("[a-z]+", "must be letters", max_length=10)], 4 + 10),
        (Annotated[str, form("[ -~]{1,10}", "must be printable")], 4 + 10 * 4),
        (Annotated[list[Annotated[str, max_bytes(1)]], entries(0, 3)], 2 + 3 * (1 + 4 + 7)),
        (Annotated[dict[str, Any], max_encoded(77)], 77),
    ],
)
def test_a_module_that_exceeds_its_budget_is_named_with_the_excess(rule: Any, size: int) -> None:
    Plant([rule], _FIXED + size).check()
    budget = _FIXED + size - 5
    assert (
        message_of(Plant([rule], budget))
        == f"The module planted exceeds its budget of {budget:,} characters by 5: lower its limits."
    )


def test_a_field_without_a_limit_is_refused() -> None:
    assert (
        message_of(Plant([str], 1_000))
        == "The module planted has a field without a limit: give it a maximum; the budget is 1,000."
    )


def test_the_modules_of_a_route_fit_together() -> None:
    free = room(kinds.HTTPS_EDGE_ROUTES, "response")
    Plant([], free).check()
    Plant([], 9_000, excludes=("oauth",)).check()
    total, limit = 20_000 - free, budgets.ROUTE
    assert message_of(Plant([], 20_000)) == (
        f"The response for the kind HTTPS edge route can take {limit + total:,} characters, "
        f"which is {total:,} above its limit. "
        "Its largest module is planted, which takes 20,000."
    )


@pytest.mark.parametrize(
    ("kind", "limit"), [(kinds.HTTPS_EDGES, budgets.EDGE), (kinds.TCP_EDGES, budgets.RESPONSE)], ids=["https", "tcp"]
)
def test_the_response_of_an_edge_fits_with_its_modules(kind: Kind, limit: int) -> None:
    free = room(kind, "response")
    Plant([], free, kind).check()
    assert message_of(Plant([], free + 5, kind)).startswith(
        f"The response for the kind {kind.name} can take {limit + 5:,} characters, which is 5 above its limit. "
        f"Its largest module is planted, "
    )


def test_a_record_fits_with_its_modules() -> None:
    kind, size = kinds.TCP_EDGES, 200_000
    excess = size - room(kind, "record") + _record_of(1)
    assert message_of(Plant([Annotated[str, max_bytes(size)]], 2_000_000, kind)) == (
        f"The record of the kind TCP edge can take {budgets.ITEM + excess:,} bytes, "
        f"which is {excess:,} above its limit. "
        f"Its largest module is planted, which takes {size + _record_of(1):,}."
    )


def _record_of(count: int) -> int:
    """Return the bytes of a planted module beside its texts: the names of the module and of its fields."""
    names = sum(len(f"field{number or ''}") + 1 for number in range(count))
    return len("planted") + 3 + len("enabled") + 1 + 21 + names


def test_an_audit_event_fits_with_its_modules() -> None:
    kind, texts = kinds.RESERVED_ADDRS, [Annotated[str, max_bytes(4096)]] * 50
    Plant(texts, 2_000_000, kind).check()
    values = 2 * sum(len(f"planted.field{number or ''}") + 3 + 4096 for number in range(50))
    enabled = 2 * (len("planted.enabled") + 3 + 71)
    total = budgets.ITEM - room(kind, "audit event") + values + enabled
    assert message_of(Plant(texts, 2_000_000, kind, audited=True)) == (
        f"The audit event of the kind reserved address can take {total:,} bytes, "
        f"which is {total - budgets.ITEM:,} above its limit. "
        f"Its largest module is planted, which takes {values + enabled:,}."
    )
