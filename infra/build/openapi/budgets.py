"""Checks that responses, records and audit events are never larger than Lambda and DynamoDB permit.

An edge can have a hundred routes, and its response contains them all. So each route has a budget of characters, and
each module of a route has a part of this budget. The largest size of a module or resource is computed from the limits
of the fields in its requests.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chalicelib.edges.routes import MAX_ROUTES
from chalicelib.http.messages import MAX_BYTES
from chalicelib.http.module import Module
from chalicelib.http.resource import EditableResource, Resource
from chalicelib.model.base import kinds
from chalicelib.model.edges.edge_modules import EdgeModule
from chalicelib.storage.records.references import MAX_REFERRERS
from infra.build.openapi import audited, largest
from infra.build.openapi.largest import BYTES, CHARACTERS, UNBOUNDED

RESPONSE = 6 << 20  # characters that Lambda accepts in a response
ITEM = 400 << 10  # bytes that DynamoDB stores in a record
EDGE = 60_000  # characters of the response for an HTTPS edge, without its routes
ROUTE = (RESPONSE - EDGE) // MAX_ROUTES
_GENERATED = 1_000  # maximum characters or bytes of fields that the API sets: ids, times and addresses
_REFERRER = 120  # maximum bytes of a path in a record, which contains the paths of all resources that refer to it
_EVENT = 3_000  # bytes of an audit event without its `details`
_DEEPEST = 4  # maximum ratio of characters in a response to bytes of the request that has set them

Declared = Iterable[EdgeModule[Any, Any]]


class OverBudget(Exception):
    """The fields of a module or resource can take more space than their budget permits."""


@dataclass(frozen=True)
class Total:
    """The largest size of a response, record or audit event, for one kind of resource with its modules.

    `base` is the size without modules, in `unit`. `limit` is the maximum that is permitted.
    """

    subject: str
    unit: str
    limit: int
    base: int
    modules: Mapping[str, int]

    def check(self) -> None:
        """Raise OverBudget if the total exceeds the limit. The message names the largest module."""
        total = self.base + sum(self.modules.values())
        if total <= self.limit:
            return
        name = max(self.modules, key=lambda module: self.modules[module], default="")
        largest = f" Its largest module is {name}, which takes {self.modules[name]:,}." if name else ""
        raise OverBudget(
            f"{self.subject} can take {total:,} {self.unit}, which is {total - self.limit:,} above its limit.{largest}"
        )


def check(declared: Declared, modules: Sequence[Module], resources: Iterable[Resource]) -> None:
    """Check the largest sizes of all modules and resources. Raises OverBudget if one exceeds its limit."""
    budgets = {module.name: module for module in declared}
    for module in modules:
        if declaration := budgets.get(module.name):
            _check_module(module, declaration.budget)
    for resource in resources:
        if isinstance(resource, EditableResource):
            item_modules = [module for module in modules if module.home == resource.kind.item_path]
            for total in totals(resource, item_modules, budgets):
                total.check()


def totals(
    resource: EditableResource, modules: Sequence[Module], declared: Mapping[str, EdgeModule[Any, Any]]
) -> Iterable[Total]:
    """Yield the largest response, record and audit event of a kind of resource with its modules."""
    kind = resource.kind
    words, characters = largest.of(resource.create, replace(CHARACTERS, bound=_DEEPEST * MAX_BYTES))
    response = {
        module.name: declared[module.name].budget if module.name in declared else response_size(module)
        for module in modules
    }
    limit = {kinds.HTTPS_EDGE_ROUTES: ROUTE, kinds.HTTPS_EDGES: EDGE}.get(kind, RESPONSE)
    base = characters.fields(words) + _GENERATED
    yield Total(
        f"The response for the kind {kind.name}", "characters", limit, base, keep_compatible(response, declared)
    )
    words, stored = largest.of(resource.create, BYTES)
    base = stored.fields(words) + _GENERATED + MAX_REFERRERS * _REFERRER
    record = {module.name: record_size(module) for module in modules}
    yield Total(f"The record of the kind {kind.name}", "bytes", ITEM, base, keep_compatible(record, declared))
    base = 2 * audited.largest(resource.stored, words, stored) + _EVENT
    event = {module.name: event_size(module) for module in modules}
    yield Total(f"The audit event of the kind {kind.name}", "bytes", ITEM, base, keep_compatible(event, declared))


def response_size(module: Module) -> int:
    """Return how many characters of a response a module can take, including its name."""
    words, sizes = largest.of(module.shape, CHARACTERS)
    return len(module.name) + 6 + sizes.size(words)


def record_size(module: Module) -> int:
    """Return how many bytes of a record a module can take."""
    words, sizes = largest.of(module.shape, BYTES)
    return len(module.name) + sizes.size(words)


def event_size(module: Module) -> int:
    """Return how many bytes a module can take in the audit event of an update.

    The event contains each field twice: its value before and after the update.
    """
    words, sizes = largest.of(module.shape, BYTES)
    return 2 * audited.largest(module.stored, words, sizes, module.name)


def keep_compatible(sizes: Mapping[str, int], declared: Mapping[str, EdgeModule[Any, Any]]) -> Mapping[str, int]:
    """Return the sizes of modules that a resource can have at the same time.

    If two modules exclude each other, only the larger one remains.
    """
    compatible_sizes = dict[str, int]()
    for name in sorted(sizes, key=lambda name: sizes[name], reverse=True):
        module = declared.get(name)
        if not any(
            module and other in declared and module.is_excluded_by(declared[other]) for other in compatible_sizes
        ):
            compatible_sizes[name] = sizes[name]
    return compatible_sizes


def _check_module(module: Module, budget: int) -> None:
    excess = response_size(module) - budget
    if excess >= UNBOUNDED // 2:
        raise OverBudget(
            f"The module {module.name} has a field without a limit: give it a maximum; the budget is {budget:,}."
        )
    if excess > 0:
        raise OverBudget(
            f"The module {module.name} exceeds its budget of {budget:,} characters by {excess:,}: lower its limits."
        )
