"""Terraform's attributes, translated from the fields of requests and answers."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from infra.build.terraform.schemas import Json, Schemas

_SCALARS = {"string": "string", "integer": "number", "number": "number", "boolean": "bool"}
_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_REFERENCE = {"id", "uri"}  # the fields of a reference to another resource
_SECRETS = {"password", "private-key"}  # values of `format` in the schemas of secret texts
# For texts that a response can spell differently than the request: the way to compare them, by `format` of the schema.
_FORMATS = {
    "authorized-key": "key",
    "ca-certificate": "pem",
    "certificate-chain": "pem",
    "date-time": "time",
    "network": "network",
    "own-domain": "host",
    "ssh-public-key": "key",
}


def build_requested(
    schemas: Schemas, name: str, field: Mapping[str, Any], answer: Mapping[str, Any], required: Collection[str]
) -> Json:
    """Return the attribute for a field of requests.

    An optional attribute is also computed, unless it is an object.
    """
    schema = schemas.resolve(field)
    shown_as, form = _find_in_answer(schemas, name, schema, answer)
    attribute = {"name": name, **_type(schemas, name, schema, answer.get("properties", {}).get(shown_as))}
    if name in required:
        attribute["required"] = True
    else:
        attribute["optional"] = True
        if attribute["type"] != "object":
            attribute["computed"] = True
    return attribute | _list_entries(schemas, name, schema) | ({"shown": shown_as} if shown_as != name else {}) | form


def fields(schemas: Schemas, request: Mapping[str, Any], answer: Mapping[str, Any]) -> list[Json]:
    """Return the attributes for the fields of an object in a request."""
    required = request.get("required", ())
    return [build_requested(schemas, name, field, answer, required) for name, field in request["properties"].items()]


def list_shown(schemas: Schemas, answer: Mapping[str, Any], covered: Collection[str] = ()) -> Iterator[Json]:
    """Yield the attributes of fields that only responses contain. Lists of other resources are left out."""
    for name, field in answer.get("properties", {}).items():
        schema = schemas.resolve(field)
        if name in covered or _lists_resources(schemas, schema):
            continue
        attribute = {
            "name": name,
            **_type(schemas, name, schema, field),
            "computed": True,
            **_list_entries(schemas, name, schema),
        }
        is_stable = attribute["type"] != "object" and not schemas.is_nullable(field)
        yield attribute | ({"stable": True} if is_stable else {})


def _type(schemas: Schemas, name: str, schema: Mapping[str, Any], answer: Mapping[str, Any] | None) -> Json:
    """Return the type of an attribute, with its fields."""
    shown_schema = schemas.resolve(answer or {})
    kind = schemas.type_of(schema)
    if kind == "array":
        item = schemas.resolve(schema["items"])
        if _has_fields(item):
            return {"type": "objects", "fields": _fields(schemas, item, schemas.resolve(shown_schema.get("items", {})))}
        return {"type": "list", "of": _SCALARS[schemas.type_of(item)]}
    if kind == "object":
        if _has_fields(schema):
            return {"type": "object", "fields": _fields(schemas, schema, shown_schema)}
        values = schema.get("additionalProperties", {})
        if values is True:
            return {"type": "json"}
        return {"type": "map", "of": _SCALARS[schemas.type_of(schemas.resolve(values or {"type": "string"}))]}
    return {"type": _SCALARS[kind]}


def _fields(schemas: Schemas, schema: Mapping[str, Any], answer: Mapping[str, Any]) -> list[Json]:
    """Return the attributes of an object. They are computed if only answers contain this object."""
    if schema is answer or schema == answer:
        return list(list_shown(schemas, schema))
    return fields(schemas, schema, answer)


def _has_fields(schema: Mapping[str, Any]) -> bool:
    """Return whether a schema is an object, and Terraform accepts the names of its fields."""
    return bool(schema.get("properties")) and all(map(_NAME.fullmatch, schema["properties"]))


def _list_entries(schemas: Schemas, name: str, schema: Mapping[str, Any]) -> Json:
    """Return the entries of an attribute that follow from its schema.

    They are `description`, `format`, and `sensitive` if the value is a secret.
    """
    entries: Json = {"description": schemas.description(schema)}
    if schema.get("format") in _SECRETS or schema.get("writeOnly"):
        entries["sensitive"] = True
    item = schemas.resolve(schema["items"]) if "items" in schema else schema
    if value_format := "host" if name == "hostports" else _FORMATS.get(item.get("format", "")):
        entries["format"] = value_format
    return entries


def _find_in_answer(
    schemas: Schemas, name: str, schema: Mapping[str, Any], answer: Mapping[str, Any]
) -> tuple[str, Json]:
    """Return the name by which responses contain a field of requests, and additional entries of the attribute.

    The entry `hidden` is true if no response contains the field. The entry `form` is "id" if responses contain a
    reference (`{"id": …}`) instead of an id, or "ids" if they contain a list of references.
    """
    properties = answer.get("properties", {})
    if name in properties:
        return name, {}
    stem = name.removesuffix("_ids").removesuffix("_id")
    for other in (stem, f"{stem}s", f"{stem[:-1]}ies", name.removeprefix("private_")):
        if field := properties.get(other):
            resolved = schemas.resolve(field)
            if set(resolved.get("properties", ())) == _REFERENCE:
                return other, {"form": "id"}
            if resolved.get("type") == "array":
                return other, {"form": "ids"}
            return other, {}
    return name, {"hidden": True}


def _lists_resources(schemas: Schemas, schema: Mapping[str, Any]) -> bool:
    item = schemas.resolve(schema.get("items", {}))
    return {"id", "uri"} <= set(item.get("properties", ()))
