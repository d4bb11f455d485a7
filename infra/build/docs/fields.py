"""Describes the type and the limits of a schema's field in words, for the reference page."""

import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any

Words = dict[str, Any]  # an object in an OpenAPI document or JSON Schema

_PAIRS = (
    ("minLength", "maxLength"),
    ("minimum", "maximum"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
)
_UNITS = {"maxLength": " characters", "maxItems": " entries", "maxProperties": " entries"}
_OTHERS = {"pattern": "`{}`", "not": "not `{}`", "uniqueItems": "each once", "default": "default: `{}`"}
_PARTS = {"propertyNames": "names", "items": "each", "additionalProperties": "values"}


def target(words: Words) -> str:
    """Return the name at the end of a reference to a schema, parameter or response."""
    return str(words["$ref"].rpartition("/")[2])


def kind(words: Words) -> tuple[str, str]:
    """Return the type of a field in words, and the name of the schema to which it refers.

    The name is "" if the field refers to no schema. For example, the result for an array of references to the schema
    `Ref` is ("array of ", "Ref").
    """
    if "$ref" in words:
        return "", target(words)
    if "allOf" in words:
        return kind(words["allOf"][0])
    if "anyOf" in words:
        return "null or ", kind(words["anyOf"][0])[1]
    for part, of in (("items", "array of "), ("additionalProperties", "map to ")):
        if isinstance(words.get(part), dict):
            inner, name = kind(words[part])
            return of + inner, name
    types = words.get("type", "object")
    return " or ".join(types if isinstance(types, list) else [types]), ""


def required_first(fields: Iterable[tuple[str, Words]], required: Collection[str]) -> list[tuple[str, Words]]:
    """Return the fields of a body, the required ones first."""
    return sorted(fields, key=lambda field: field[0] not in required)


def bounds(words: Words) -> str:
    return ", ".join(_bounds(words))


def _bounds(words: Words) -> Iterator[str]:
    for low, high in _PAIRS:
        if numbers := [f"{words[bound]:,}" for bound in (low, high) if bound in words]:
            prefix = "at most " if low not in words else "at least " if high not in words else ""
            yield prefix + " to ".join(numbers) + (" bytes" if "x-max-bytes" in words else _UNITS.get(high, ""))
    if "enum" in words:
        yield "one of " + ", ".join(
            f"`{choice if isinstance(choice, str) else json.dumps(choice)}`" for choice in words["enum"]
        )
    if words.get("format", "int64") != "int64":
        yield str(words["format"])
    for word, sentence in _OTHERS.items():
        if word in words:
            value = words[word]
            # the schema in `not` has one keyword, `pattern` or `type`: show only its value
            yield sentence.format(next(iter(value.values())) if word == "not" else value)
    for part, of in _PARTS.items():
        if isinstance(words.get(part), dict) and (inner := bounds(words[part])):
            yield f"{of}: {inner}"
