"""Lists the operations and fields of the OpenAPI document, for docs/api.txt.

The diff of this file shows in a review how a commit changes the API.
"""

import json
from collections.abc import Iterator
from typing import Any

from chalicelib.http import auth
from infra import ROOT

FILE = ROOT / "docs" / "api.txt"

Words = dict[str, Any]
_ABOUT = """\
# The operations and the schemas of the OpenAPI document. 'make openapi' writes this list; a test compares it.
# Operations: METHOD path ?parameter Header Body (open: without a token) -> status Body | statuses of errors
# Schemas: field type, optional field? type(minimum..maximum)
"""
_BOUNDS = (
    ("minLength", "maxLength"),
    ("minimum", "maximum"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
)
_COMPOSED = ("anyOf", "allOf", "oneOf")


def text(document: Words) -> str:
    """Return the list of a document's operations and schemas."""
    schemas = document["components"]["schemas"].items()
    return "\n".join(
        [
            *_ABOUT.splitlines(),
            "",
            *_operations(document),
            "",
            *(f"{name}: {_fields(words)}" for name, words in schemas),
            "",
        ]
    )


def _operations(document: Words) -> Iterator[str]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            request = [
                method.upper(),
                path,
                *_parameters(document, operation),
                *_bodies(operation.get("requestBody", {})),
            ]
            is_open = ["(open)"] if operation.get("security") == [] else []
            answers = operation["responses"].items()
            shown = ", ".join(" ".join([status, *_bodies(words)]) for status, words in answers if status < "400")
            refused = [status for status, _ in answers if status >= "400"]
            yield " ".join([*request, *is_open, "->", shown, "|", *refused])


def _parameters(document: Words, operation: Words) -> Iterator[str]:
    """Yield the query parameters and the headers of an operation, without the header of the API's version."""
    for words in operation["parameters"]:
        parameter = document["components"]["parameters"].get(words.get("$ref", "").rpartition("/")[2], words)
        if parameter["in"] == "query":
            yield f"?{parameter['name']}"
        elif parameter["in"] == "header" and parameter["name"] != auth.VERSION_HEADER:
            yield parameter["name"]


def _bodies(words: Words) -> Iterator[str]:
    """Yield the name of a body's schema for JSON, and the media type for each other format."""
    for media, content in words.get("content", {}).items():
        yield _type(content["schema"]) if media == "application/json" else media


def _fields(words: Words) -> str:
    required = words.get("required", ())
    return ", ".join(
        f"{name}{'' if name in required else '?'} {_type(field)}" for name, field in words["properties"].items()
    )


def _type(words: Words) -> str:
    """Return a field's type or format, with its bounds."""
    if "$ref" in words:
        return str(words["$ref"]).rpartition("/")[2]
    for composed in _COMPOSED:
        if composed in words:
            return "|".join(map(_type, words[composed]))
    if "enum" in words:
        return "|".join(map(json.dumps, words["enum"]))
    bounds = "".join(
        f"({words.get(low, '')}..{words.get(high, '')})" for low, high in _BOUNDS if low in words or high in words
    )
    if "items" in words:
        return f"[{_type(words['items'])}]{_mark_nullable(words)}{bounds}"
    if isinstance(words.get("additionalProperties"), dict):
        return f"{{{_type(words['additionalProperties'])}}}{_mark_nullable(words)}{bounds}"
    of = words["type"] if isinstance(words["type"], str) else words["type"][0]
    return f"{words.get('format', of)}{_mark_nullable(words)}{bounds}"


def _mark_nullable(words: Words) -> str:
    return "|null" if "null" in words["type"] else ""
