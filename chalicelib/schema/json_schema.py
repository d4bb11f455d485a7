"""JSON Schema of rules: what is true of a value, for the document that `make openapi` writes."""

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
