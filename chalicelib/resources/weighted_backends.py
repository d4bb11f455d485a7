"""Weighted backends: children and the share of the traffic each of them gets (SPEC 2.6)."""

from collections.abc import Mapping
from typing import Annotated, Any

from chalicelib.api import fields
from chalicelib.api.caller import Caller
from chalicelib.api.errors import Conflict, UnknownReference
from chalicelib.api.fields import BackendId, Described, Shown
from chalicelib.api.references import References
from chalicelib.api.resource import EditableResource, New
from chalicelib.api.rules import AtPath, between, entries, if_null, unless_nothing


def _not_itself(children: dict[str, int], path: Mapping[str, str]) -> dict[str, int]:
    if path.get("id") in children:
        raise ValueError("must not name the backend itself")
    return children


Weight = Annotated[int, between(0, 10_000)]
Children = Annotated[dict[BackendId, Weight], entries(0, 100), AtPath(_not_itself), if_null({})]


class Create(Described):
    backends: Children = {}
    """Child backend id to weight; each weight is in [0, 10000]."""


class Change(Create):
    backends: Annotated[Children, unless_nothing] = {}


class WeightedBackend(Create, Shown):
    """Shares traffic between other backends by weight."""


def make(caller: Caller, id: str, asked: Create) -> New:
    return New(fields.values(asked))


def _points(body: dict[str, Any]) -> References:
    return {"backends": body["backends"]} if "backends" in body else {}


WEIGHTED_BACKENDS = EditableResource(
    prefix="bkdwd",
    path="/backends/weighted",
    items="backends",
    create=Create,
    change=Change,
    shows=WeightedBackend,
    make=make,
    points=_points,
    refuses={"POST": (UnknownReference, Conflict), "PATCH": (UnknownReference, Conflict), "DELETE": (Conflict,)},
)
