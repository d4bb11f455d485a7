"""Reduces the OpenAPI document for the command line, which has one command for each operation."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

# Fields that `te` shows as the columns of the table when it lists resources, in this order.
_COLUMNS = (
    "id", "name", "domain", "addr", "hostports", "match_type", "match", "status_code", "labels", "backends", "scopes",
    "owner_id", "ssh_certificate_authority_id", "principals", "proto", "public_url", "action", "actor.name",
    "resource_id", "active", "description", "issuer", "subject_common_name", "not_after", "valid_until", "expires_at",
    "started_at", "created_at",
)  # fmt: skip
_MOST_COLUMNS = 6
_METHODS = {"PATCH": "update", "DELETE": "delete", "PUT": "set", "GET": "get"}
_SCALARS = {"string": "text", "integer": "integer", "number": "number", "boolean": "boolean"}


def reduce(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a short description of each operation's command."""
    return [
        _operation(document, path, method.upper(), operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method != "parameters"
    ]


def _operation(document: Mapping[str, Any], path: str, method: str, operation: Mapping[str, Any]) -> dict[str, Any]:
    parameters = [_resolve(document, parameter) for parameter in operation.get("parameters", [])]
    headers = [
        parameter["name"]
        for parameter in parameters
        if parameter["in"] == "header" and parameter["name"] != "Service-Version"
    ]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    content = _success(document, operation)
    answer = _resolve(document, content.get("application/json", {}).get("schema", {}))
    items = _items(document, answer) if operation["operationId"].startswith("list_") else ("", [])
    reduced = {
        "operation": operation["operationId"],
        "words": _words(document["paths"], path, method, operation["operationId"]),
        "method": method,
        "path": path,
        "summary": operation["summary"],
        "query": [
            [parameter["name"], _SCALARS[parameter["schema"]["type"]], _help(parameter)]
            for parameter in parameters
            if parameter["in"] == "query"
        ],
        "headers": [name for name in headers if method != "GET"],
        "fields": [] if body is None else [*_fields(document, _resolve(document, body), ())],
        "items": items[0],
        "columns": items[1],
        "open": operation.get("security") == [],
    }
    return {name: value for name, value in reduced.items() if value}


def _words(paths: Mapping[str, Any], path: str, method: str, operation: str) -> list[str]:
    """Return the words of a command: the fixed segments of the path, and a verb if the path does not end with one."""
    segments = path.strip("/").split("/")
    words = [re.sub(r"[_.]", "-", segment) for segment in segments if not segment.startswith("{")]
    if operation.startswith("list_"):
        return [*words, "list"]
    if method == "POST":
        has_items = any(other.startswith(f"{path}/{{") for other in paths) or len(segments) == 1
        return [*words, "create"] if has_items else words
    if method == "DELETE" and "put" in paths[path]:
        return [*words, "unset"]
    return [*words, _METHODS[method]]


def _success(document: Mapping[str, Any], operation: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the content of the successful answer, by media type."""
    answer = next(value for status, value in operation["responses"].items() if status.startswith("2"))
    content: Mapping[str, Any] = _resolve(document, answer).get("content", {})
    return content


def _items(document: Mapping[str, Any], answer: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the field of a response that lists resources, and the columns of the table that shows them."""
    name, schema = next((name, value) for name, value in answer["properties"].items() if value.get("type") == "array")
    fields = _resolve(document, schema["items"])["properties"]
    return name, [column for column in _COLUMNS if column.partition(".")[0] in fields][:_MOST_COLUMNS]


def _fields(document: Mapping[str, Any], schema: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[list[Any]]:
    """Yield the path, type and help of each field, and whether it is required. Nested fields follow their object."""
    for name, value in schema.get("properties", {}).items():
        field, path = _resolve(document, value), (*above, name)
        required = name in schema.get("required", ()) and not above
        yield [".".join(path), _type(document, field), _help({**field, **value}), required]
        yield from _fields(document, field, path)


def _type(document: Mapping[str, Any], field: Mapping[str, Any]) -> str:
    """Return the type of a flag: `text`, `integer`, `number`, `boolean`, `texts`, `map`, `map:TYPE` or `json`."""
    if field.get("type") == "array":
        item = _resolve(document, field["items"])
        return "texts" if item.get("type") == "string" else "json"
    if field.get("type") == "object" and not field.get("properties"):
        values = field.get("additionalProperties")
        kind = _SCALARS.get(_resolve(document, values).get("type", "")) if isinstance(values, dict) else ""
        return f"map:{kind}" if kind else "map"
    return _SCALARS.get(field.get("type", ""), "json")


def _resolve(document: Mapping[str, Any], value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema, parameter or answer to which a reference points."""
    if len(value.get("allOf", ())) == 1:
        value = value["allOf"][0]
    while "$ref" in value:
        target: Any = document
        for part in value["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        value = target
    return value


def _help(value: Mapping[str, Any]) -> str:
    """Return the help of a field: the first sentence of its description, and the accepted values."""
    text = re.split(r"(?<=\.)\s", " ".join(str(value.get("description", "")).split()), maxsplit=1)[0].rstrip(".")
    values = value.get("enum") or value.get("schema", {}).get("enum") or []
    text = text if len(text) <= 100 else f"{text[:99]}…"
    return " ".join(filter(None, [text, f"({', '.join(map(str, values))})" if values else ""]))
