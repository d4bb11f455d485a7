"""The document, and the same widened by the values that docs/conventions.md says are tolerated beyond it."""

import copy
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from chalicelib.documents import openapi
from infra import ROOT

Words = dict[str, Any]
_HEADING = "## What is tolerated beyond the OpenAPI document"
_OF_A_REVOCATION = "of a revocation"


def list_tolerated(schema: str, field: str, is_required: bool) -> list[Any]:
    """Return the values that the list has for a field of a request's schema beside those of the document."""
    values = [] if is_required or schema == "CriticalOptions" else [None]
    return values + [value for bullet, value in (('`""`', ""), ("`0`", 0)) if _names(bullet, schema, field)]


@cache
def document() -> Mapping[str, Any]:
    """Return the OpenAPI document, which is built when pytest starts."""
    read: Mapping[str, Any] = json.loads(openapi.FILE.read_text())
    return read


@cache
def _bullets() -> dict[str, str]:
    """Return the list's bullets by their first words."""
    section = (ROOT / "docs" / "conventions.md").read_text().partition(_HEADING)[2]
    return dict(re.findall(r"^- \*\*(.+?)\*\* (.+?)(?=^- |^$)", section, re.MULTILINE | re.DOTALL))


def _names(bullet: str, schema: str, field: str) -> bool:
    """Return whether a bullet of the list names a field: everywhere, of a PATCH alone, or of a revocation alone."""
    fields, _, of_a_revocation = _bullets()[bullet].replace("\n  ", " ").partition(_OF_A_REVOCATION)
    if f"`{field}` of a PATCH" in fields:
        return schema.endswith("Update")
    return f"`{field}`" in (fields + of_a_revocation if schema == "SSHRevocationCreate" else fields)


def find_request_schemas(document: Mapping[str, Any]) -> set[str]:
    """Return the names of the schemas that bodies of requests hold, at any depth."""
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    names: set[str] = set()
    todo = [name for operation in operations for name in _find_references(operation.get("requestBody"))]
    while todo:
        name = todo.pop()
        if name not in names:
            names.add(name)
            todo += _find_references(document["components"]["schemas"][name])
    return names


def widen(document: Mapping[str, Any]) -> Words:
    """Return the document with the tolerated values of each field."""
    document_copy, requests = copy.deepcopy(dict(document)), find_request_schemas(document)
    for name in requests:
        words = document_copy["components"]["schemas"][name]
        for field, schema in words["properties"].items():
            values = list_tolerated(name, field, field in words.get("required", ()))
            words["properties"][field] = {"anyOf": [schema, {"enum": values}]} if values else schema
    return document_copy


def _find_references(words: Any) -> Iterator[str]:
    """Yield the schemas that a part of the document refers to itself."""
    yield from re.findall(r'"#/components/schemas/(\w+)"', json.dumps(words))
