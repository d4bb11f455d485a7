"""JSON Schema of the rules for fields, for the document that `make openapi` writes."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema

JsonSchema = dict[str, Any]

MAX_ENCODED = "x-max-encoded"  # the most characters of a value, as `rules.max_encoded` counts them
MAX_BYTES = "x-max-bytes"  # the most bytes of UTF-8 in a string or object; JSON Schema counts characters


@dataclass(frozen=True, eq=False)
class Documented:
    """JSON Schema keywords that describe a value of a response. Nothing checks them."""

    keywords: JsonSchema

    def __get_pydantic_json_schema__(self, core: "CoreSchema", handler: "GetJsonSchemaHandler") -> JsonSchema:
        return merge(handler(core), self.keywords)


def at_most_bytes(limit: int) -> JsonSchema:
    """Return the schema of a string of at most `limit` bytes of UTF-8.

    The schema can only limit the number of characters, which have at least one byte each.
    """
    return {"maxLength": limit, MAX_BYTES: limit}


def merge(schema: JsonSchema, more: JsonSchema) -> JsonSchema:
    """Return a schema with the keywords of two schemas. Raises ValueError if a keyword has two different values."""
    if differing := [name for name in schema.keys() & more.keys() if schema[name] != more[name]]:
        raise ValueError(
            f"the rules of a field must not set {', '.join(differing)} to different values: {schema} and {more}"
        )
    return {**schema, **more}
