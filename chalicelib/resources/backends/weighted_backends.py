"""Weighted backends: child backends and their shares of the traffic (SPEC 2.6)."""

from collections.abc import Mapping
from typing import Annotated

from chalicelib.http.errors import Conflict, UnknownReference
from chalicelib.http.resource import EditableResource
from chalicelib.model.base import kinds
from chalicelib.model.edges.backends import Weighted
from chalicelib.schema.fields import BackendId, DescribedShape, Shown
from chalicelib.schema.rules import WithContext, between, entries, if_null, unless_nothing


def _reject_itself(children: dict[str, int], path: Mapping[str, str]) -> dict[str, int]:
    if path.get("id") in children:
        raise ValueError("must not contain the id of this backend")
    return children


Weight = Annotated[int, between(0, 10_000)]
Children = Annotated[dict[BackendId, Weight], entries(0, 100), WithContext(_reject_itself), if_null({})]


class WeightedCreate(DescribedShape):
    backends: Children = {}
    """Weights by the ids of child backends. Each weight is from 0 to 10000."""


class WeightedChange(WeightedCreate):
    backends: Annotated[Children, unless_nothing] = {}


class WeightedBackend(WeightedCreate, Shown):
    """A backend that divides traffic among other backends by weight."""


RESOURCE = EditableResource(
    kind=kinds.WEIGHTED_BACKENDS,
    stored=Weighted,
    create=WeightedCreate,
    change=WeightedChange,
    response=WeightedBackend,
    errors={"POST": (UnknownReference, Conflict), "PATCH": (UnknownReference, Conflict), "DELETE": (Conflict,)},
)
