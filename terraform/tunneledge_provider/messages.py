"""Builds and parses messages of Terraform's plugin protocol: schemas, values, and diagnostics."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from tf.gen import tfplugin_pb2 as pb
from tf.types import Unknown
from tf.utils import read_dynamic_value, to_dynamic_value

from tunneledge_provider.api import ApiError
from tunneledge_provider.kinds import Attribute
from tunneledge_provider.values import UNKNOWN, State

_SCALARS = {"string": "string", "number": "number", "bool": "bool", "json": "string"}
_NESTING = {"object": pb.Schema.Object.NestingMode.SINGLE, "objects": pb.Schema.Object.NestingMode.LIST}


def schema(attributes: Iterable[Attribute], description: str = "") -> pb.Schema:
    """Return the schema of a resource, of a data source, or of the provider."""
    block = pb.Schema.Block(attributes=map(_attribute, attributes), description=description)
    return pb.Schema(version=0, block=block)


def _attribute(attribute: Attribute) -> pb.Schema.Attribute:
    message = pb.Schema.Attribute(
        name=attribute.name,
        description=attribute.description,
        required=attribute.required,
        optional=attribute.optional,
        computed=attribute.computed,
        sensitive=attribute.sensitive,
    )
    if attribute.type in _NESTING:
        fields = map(_attribute, attribute.fields)
        message.nested_type.CopyFrom(pb.Schema.Object(attributes=fields, nesting=_NESTING[attribute.type]))
    elif attribute.type in ("list", "map"):
        message.type = json.dumps([attribute.type, _SCALARS[attribute.of]]).encode()
    else:
        message.type = json.dumps(_SCALARS[attribute.type]).encode()
    return message


def read(value: pb.DynamicValue) -> Any:
    """Return the value in a message. Return None for null."""
    return _translate(read_dynamic_value(value), {id(Unknown): UNKNOWN})


def write(value: State | None) -> pb.DynamicValue:
    """Return the message for a value, which can be None (null)."""
    if value is None:
        return pb.DynamicValue(msgpack=b"\xc0")
    return to_dynamic_value(_translate(value, {id(UNKNOWN): Unknown}))


def _translate(value: Any, replaced: Mapping[int, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _translate(field, replaced) for key, field in value.items()}
    if isinstance(value, list):
        return [_translate(element, replaced) for element in value]
    return replaced.get(id(value), value)


def conform(attributes: Iterable[Attribute], stored: Mapping[str, Any]) -> State:
    """Return a stored state with exactly the attributes of this version.

    Attributes that this version does not have are dropped. Attributes that the stored state lacks become null.
    """
    return {attribute.name: _conform(attribute, stored.get(attribute.name)) for attribute in attributes}


def _conform(attribute: Attribute, stored: Any) -> Any:
    if attribute.type == "object" and isinstance(stored, dict):
        return conform(attribute.fields, stored)
    if attribute.type == "objects" and isinstance(stored, list):
        return [conform(attribute.fields, element) for element in stored]
    return repr(stored) if isinstance(stored, float) else stored


def path(*steps: str | int) -> pb.AttributePath:
    """Return Terraform's path of an attribute. `steps` are names of attributes and indexes of list elements."""
    path_steps = [
        pb.AttributePath.Step(element_key_int=step)
        if isinstance(step, int)
        else pb.AttributePath.Step(attribute_name=step)
        for step in steps
    ]
    return pb.AttributePath(steps=path_steps)


def errors(attributes: Iterable[Attribute], error: Exception) -> list[pb.Diagnostic]:
    """Return the diagnostics for an error: one for each invalid field that the API names.

    A diagnostic for a field has the path of its attribute. If the API names no field, there is one diagnostic.
    """
    if not isinstance(error, ApiError):
        return [_error(str(error))]
    all_attributes = tuple(attributes)
    operation = f"The id of the operation is {error.operation_id}." if error.operation_id else ""
    if error.status == 400 and error.fields:
        return [
            _error(f"'{name}' {text}.", operation, _find_path(all_attributes, name))
            for name, text in error.fields.items()
        ]
    return [_error(error.msg, "\n".join([*(f"{name}: {text}." for name, text in error.fields.items()), operation]))]


def _error(summary: str, detail: str = "", attribute_path: pb.AttributePath | None = None) -> pb.Diagnostic:
    return pb.Diagnostic(
        severity=pb.Diagnostic.Severity.ERROR, summary=summary, detail=detail.strip(), attribute=attribute_path
    )


def _find_path(attributes: tuple[Attribute, ...], name: str) -> pb.AttributePath | None:
    """Return Terraform's path of an attribute for a field in an API error: the path of `acl` for the field `acl.0`.

    The path ends before the first part that is not an attribute. Return None if the path would be empty.
    """
    steps: list[str | int] = []
    for step in re.findall(r"\w+", name):
        attribute = next((attribute for attribute in attributes if attribute.name == step), None)
        if attribute is None:
            break
        steps.append(step)
        attributes = attribute.fields
    return path(*steps) if steps else None
