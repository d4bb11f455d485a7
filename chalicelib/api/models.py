"""Shapes as pydantic models, each made when the first body is to be read in it.

The one file that imports pydantic, and so imported by the first body too: half a cold start is pydantic's.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, cast, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic_core import ErrorDetails

from chalicelib.api import faults
from chalicelib.api.fields import Shape

S = TypeVar("S", bound=Shape)


class Body(BaseModel):
    """What all models have: no field but the shape's, no value of another type, no secret in what it says of itself."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)
    model_config |= {"json_schema_serialization_defaults_required": True}  # responses carry every field

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        yield from ()


_models: dict[type[Shape], type[Body]] = {}


def model(shape: type[Shape]) -> type[Body]:
    """The one model of a shape: its instances are of the shape too."""
    if shape not in _models:
        bases: Any = (Body, shape)  # of the second, pydantic takes the annotations and defaults
        _models[shape] = create_model(shape.__name__, __base__=bases, __module__=shape.__module__)
    return _models[shape]


def check(shape: type[S], values: Mapping[str, Any], path: Mapping[str, str]) -> tuple[S | None, dict[str, str]]:
    """As fields.check, which imports this."""
    try:
        return cast(S, model(shape).model_validate(values, context=path)), {}
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        return None, {faults.dotted(fault["loc"]): _sentence(shape, fault) for fault in found}


def _sentence(shape: type[Shape], fault: ErrorDetails) -> str:
    if fault["type"] == "extra_forbidden":
        return faults.unknown(_known(shape, fault["loc"]))
    return faults.sentence(fault["type"], fault.get("ctx", {}), otherwise=fault["msg"])


def _known(shape: type[Shape], path: tuple[int | str, ...]) -> list[str]:
    """The names of the fields beside the last step of a path."""
    names = {field.alias or name: field.annotation for name, field in model(shape).model_fields.items()}
    if len(path) == 1:
        return list(names)
    below = names[str(path[0])]
    inner = next(part for part in (below, *get_args(below)) if isinstance(part, type) and issubclass(part, Shape))
    return _known(inner, path[2:] if isinstance(path[1], int) else path[1:])  # an entry of an array is not a field
