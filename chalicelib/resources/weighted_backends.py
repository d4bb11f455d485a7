"""Weighted backends: children and the share of the traffic each of them gets (SPEC 2.6)."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationInfo

from chalicelib.api import fields
from chalicelib.api.caller import Caller
from chalicelib.api.fields import BackendId, Described, if_null
from chalicelib.api.references import References
from chalicelib.api.resource import EditableResource, New


def _not_itself(children: dict[str, int], info: ValidationInfo) -> dict[str, int]:
    if (info.context or {}).get("id") in children:
        raise ValueError("must not name the backend itself")
    return children


Weight = Annotated[int, Field(ge=0, le=10_000)]
Children = Annotated[dict[BackendId, Weight], Field(max_length=100), AfterValidator(_not_itself), if_null({})]


class Create(Described):
    backends: Children = {}


class Change(Described):
    backends: Children = {}

    _none_is_unchanged = fields.unless_nothing("backends")


def make(caller: Caller, id: str, asked: Create) -> New:
    return New(asked.model_dump())


def _points(body: dict[str, Any]) -> References:
    return {"backends": body["backends"]} if "backends" in body else {}


WEIGHTED_BACKENDS = EditableResource(
    prefix="bkdwd",
    path="/backends/weighted",
    items="backends",
    create=Create,
    change=Change,
    make=make,
    points=_points,
)
