"""Pydantic models of shapes. Each is created when a request first has a body of its shape.

Only this file imports pydantic. Its import waits for the first body, because it takes half of a cold start.
"""

from collections.abc import Iterator, Mapping
from functools import reduce
from inspect import get_annotations
from operator import or_
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic_core import ErrorDetails, PydanticUndefined

from chalicelib.schema import validation_errors
from chalicelib.schema.shapes import Shape, names

S = TypeVar("S", bound=Shape)


class Body(BaseModel):
    """The base of all models.

    Types are strict, unknown fields are errors, and `repr` shows no values.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)
    # The JSON Schema of a response must require all fields, because every response has all of them.
    model_config |= {"json_schema_serialization_defaults_required": True}

    def values(self) -> dict[str, Any]:
        return self.model_dump()

    def fields_set(self) -> dict[str, Any]:
        return self.model_dump(by_alias=True, exclude_unset=True)

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        yield from ()


_models: dict[type[Shape], type[Body]] = {}


def model(shape: type[Shape]) -> type[Body]:
    """Return the model of a shape. Its instances are also instances of the shape."""
    if shape not in _models:
        nested, undefined = _nest(shape), dict.fromkeys(_list_redeclared(shape), PydanticUndefined)
        if undefined:  # otherwise the model would inherit the defaults that base classes of the shape have
            nested = type(nested.__name__, (nested,), undefined)
        bases: Any = (Body, nested)  # pydantic takes annotations and defaults from the last base class
        _models[shape] = create_model(shape.__name__, __base__=bases, __module__=shape.__module__)
    return _models[shape]


def _list_redeclared(shape: type[Shape]) -> Iterator[str]:
    """Yield the fields that a shape requires although its base class has a default for them."""
    for name in names(shape):  # type: ignore[arg-type]  # mypy looks for the hash of an instance
        owner = next(base for base in shape.__mro__ if name in get_annotations(base))
        if name not in vars(owner) and hasattr(shape, name):
            yield name


def check(
    shape: type[S], values: Mapping[str, Any], path: Mapping[str, str] | None = None
) -> tuple[S | None, dict[str, str]]:
    """Validate a body by a shape. Return the parsed body, or None and an error message for each dotted path of a field.

    `path` contains the values of the variables in the request's path, for rules that depend on them.
    """
    try:
        return cast(S, model(shape).model_validate(values, context=path or {})), {}
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        return None, {validation_errors.join_path(detail["loc"]): _build_sentence(shape, detail) for detail in details}


def _nest(shape: type[Shape]) -> type[Shape]:
    """Return a shape with models in place of its fields' shapes. Return the same shape if it has none."""
    hints = get_type_hints(shape, include_extras=True)
    types = {name: new for name, hint in hints.items() if (new := _insert_models(hint)) is not hint}
    defaults = {name: getattr(shape, name) for name in types if hasattr(shape, name)}
    names = {"__doc__": shape.__doc__, "__module__": shape.__module__, "__annotations__": types, **defaults}
    return type(shape.__name__, (shape,), names) if types else shape


def _insert_models(hint: Any) -> Any:
    """Return a field's type with models in place of all shapes. Return the same type if it contains none."""
    if isinstance(hint, type) and issubclass(hint, Shape):
        return model(hint)
    parts = getattr(hint, "__args__", ())
    new_parts = tuple(map(_insert_models, parts))
    if all(new is old for new, old in zip(new_parts, parts, strict=True)):
        return hint
    if get_origin(hint) is Annotated:
        return Annotated[new_parts[0], *hint.__metadata__]
    return reduce(or_, new_parts) if get_origin(hint) in (Union, UnionType) else get_origin(hint)[new_parts]


def _build_sentence(shape: type[Shape], detail: ErrorDetails) -> str:
    if detail["type"] == "extra_forbidden":
        return validation_errors.describe_unknown(_list_field_names(model(shape), detail["loc"]))
    return validation_errors.describe(detail["type"], detail.get("ctx", {}), otherwise=detail["msg"])


def _list_field_names(read_by: type[Body], path: tuple[int | str, ...]) -> list[str]:
    """Return the names of the permitted fields beside an unknown field.

    `path` is the path of the unknown field, below an object of the model `read_by`.
    """
    names = {field.alias or name: field.annotation for name, field in read_by.model_fields.items()}
    if len(path) == 1:
        return list(names)
    below = names[str(path[0])]
    inner = next(part for part in (below, *get_args(below)) if isinstance(part, type) and issubclass(part, Body))
    # skip the index of an entry after the name of an array
    return _list_field_names(inner, path[2:] if isinstance(path[1], int) else path[1:])
