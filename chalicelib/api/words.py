"""Words of JSON Schema: what rules say of values, for the document that `make openapi` writes."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema

Words = dict[str, Any]

MAX_BYTES = "x-max-bytes"  # of a string in UTF-8: JSON Schema counts characters only


@dataclass(frozen=True, eq=False)
class Says:
    """What is true of a value and nobody checks, since it is only shown."""

    words: Words

    def __get_pydantic_json_schema__(self, core: "CoreSchema", handler: "GetJsonSchemaHandler") -> Words:
        return both(handler(core), self.words)


def at_most_bytes(limit: int) -> Words:
    """The words for a string of at most so many bytes of UTF-8, of which a character has at least one."""
    return {"maxLength": limit, MAX_BYTES: limit}


def both(words: Words, more: Words) -> Words:
    """The words for what these say together. Raises ValueError where one would unsay another."""
    if unsaid := [word for word in words.keys() & more.keys() if words[word] != more[word]]:
        raise ValueError(f"two rules say {', '.join(unsaid)}: {words} and {more}")
    return {**words, **more}


def either(words: Words, values: tuple[Any, ...]) -> Words:
    """The words for what these say, and for the values too."""
    type = words.get("type", [])
    types = [type] if isinstance(type, str) else type
    others = [value for value in values if value != {} or "object" not in types]
    if types and "enum" not in words and others in ([], [None]):
        return {**words, "type": [*types, "null"] if others and "null" not in types else type}
    choices = words["anyOf"] if words.keys() == {"anyOf"} else [words]
    return {"anyOf": [*choices, *(choice for choice in map(_only, others) if choice not in choices)]}


def named(values: tuple[Any, ...]) -> str:
    """The values in a sentence: null or {}."""
    return " or ".join(map(json.dumps, values))


def _only(value: Any) -> Words:
    match value:
        case None:
            return {"type": "null"}
        case {}:
            return {"type": "object", "maxProperties": 0}
        case str():
            return {"type": "string", "enum": [value]}
        case _:
            return {"type": "integer", "enum": [value]}
