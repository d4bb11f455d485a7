"""JSON Schema of rules: what is true of a value, for the document that `make openapi` writes."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema

JsonSchema = dict[str, Any]

MAX_BYTES = "x-max-bytes"  # of a string in UTF-8: JSON Schema counts characters only


@dataclass(frozen=True, eq=False)
class Documented:
    """A keyword of JSON Schema that is true of a value and that nobody checks, since the value is only shown."""

    keywords: JsonSchema

    def __get_pydantic_json_schema__(self, core: "CoreSchema", handler: "GetJsonSchemaHandler") -> JsonSchema:
        return both(handler(core), self.keywords)


def at_most_bytes(limit: int) -> JsonSchema:
    """Describe a string of at most so many bytes of UTF-8, of which a character has at least one."""
    return {"maxLength": limit, MAX_BYTES: limit}


def both(schema: JsonSchema, more: JsonSchema) -> JsonSchema:
    """Join two schemas. Raises ValueError where they give one keyword two values."""
    if differing := [name for name in schema.keys() & more.keys() if schema[name] != more[name]]:
        raise ValueError(f"two rules say {', '.join(differing)}: {schema} and {more}")
    return {**schema, **more}


def either(schema: JsonSchema, values: tuple[Any, ...]) -> JsonSchema:
    """Extend a schema by some values that are allowed too."""
    own = schema.get("type", [])
    types = [own] if isinstance(own, str) else own
    others = [value for value in values if value != {} or "object" not in types]
    if types and "enum" not in schema and others in ([], [None]):
        return {**schema, "type": [*types, "null"] if others and "null" not in types else own}
    choices = schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]
    return {"anyOf": [*choices, *(choice for choice in map(_only, others) if choice not in choices)]}


def named(values: tuple[Any, ...]) -> str:
    """Return values as a sentence names them: null or {}."""
    return " or ".join(map(json.dumps, values))


def _only(value: Any) -> JsonSchema:
    match value:
        case None:
            return {"type": "null"}
        case {}:
            return {"type": "object", "maxProperties": 0}
        case str():
            return {"type": "string", "enum": [value]}
        case _:
            return {"type": "integer", "enum": [value]}
