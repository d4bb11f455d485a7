"""The largest value of a JSON Schema: in characters of a response, or in bytes of a record.

Lambda counts a response as JSON inside a JSON string, so a quotation mark takes several characters. DynamoDB counts the
bytes of names and values, and one byte for each entry.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from chalicelib.http.messages import MAX_BYTES
from chalicelib.schema import json_schema, sizes
from chalicelib.schema.shapes import Shape
from infra.build.openapi import schemas
from infra.build.openapi.schemas import REF, Words

UNBOUNDED = 10**9
_REFERENCE = 200  # size of a reference to a resource: the object `Ref` in a response, or the entry in a record
_SEALED = 256  # bytes that encryption adds to a secret
_BEGINNINGS = ("", "/", "a")
# maximum lengths of texts by the `format` of their schema: the API checks these limits, but the schema omits them
_FORMATS = {
    "acl-rule": 300,
    "date-time": 40,
    "network": 60,
    "oidc-issuer": 255,
    "own-domain": 260,
    "private-key": 4_500,
    "scope": 100,
}


@dataclass(frozen=True)
class Unit:
    """A unit for sizes of values: characters of a response, or bytes of a record.

    `text`, `name` and `container` are added to the size of each text, field name, and array or object. `secret` is
    added to a secret. `other` is the maximum size of a number, boolean or null. `costs` are the sizes of characters
    that take more than one. `bound` is the maximum size of any value.
    """

    text: int
    name: int
    container: int
    other: int
    secret: int
    costs: Mapping[str, int]
    counts_bytes: bool = False
    bound: int = UNBOUNDED


# the length of a character after it is escaped twice: a response is JSON inside a JSON string
_ESCAPED = {"\0": 7, "é": 7, '"': 4, "\\": 4}
CHARACTERS = Unit(text=4, name=6, container=2, other=25, secret=0, costs=_ESCAPED)
BYTES = Unit(text=0, name=1, container=3, other=21, secret=_SEALED, costs={"é": 4}, counts_bytes=True, bound=MAX_BYTES)


@dataclass(frozen=True)
class Largest:
    """Computes the largest sizes of values in a unit. `definitions` has the schemas by name, to resolve references."""

    unit: Unit
    definitions: Mapping[str, Words]

    def size(self, words: Words) -> int:
        """Return the size of the largest value."""
        limit = int(words.get(json_schema.MAX_ENCODED, UNBOUNDED))
        if self.unit.counts_bytes and json_schema.MAX_BYTES in words:
            limit = int(words[json_schema.MAX_BYTES]) + 2 * int(words.get("maxProperties", 0)) + self._of_secret(words)
        return min(limit, self._size(words), self.unit.bound)

    def resolve(self, words: Words) -> Words:
        """Return the schema to which a schema refers, or the schema itself."""
        (first, *_) = words.get("allOf") or words.get("anyOf") or [words]
        return self.resolve(self.definitions[first["$ref"].removeprefix(REF)]) if "$ref" in first else first

    def _size(self, words: Words) -> int:
        if "$ref" in words:
            return self.size(self.definitions[words["$ref"].removeprefix(REF)])
        if choices := words.get("allOf") or words.get("anyOf") or words.get("oneOf"):
            return max(map(self.size, choices))
        if "enum" in words or "const" in words:
            return max(sizes.measure_encoded(json.dumps(choice)) for choice in words.get("enum", [words.get("const")]))
        match words.get("type"):
            case "string":
                return self.text(words)
            case "array":
                count = int(words.get("maxItems", UNBOUNDED))
                return self.unit.container + count * (1 + self.size(words["items"]))
            case "object":
                return self.unit.container + self.fields(words)
            case None:
                return UNBOUNDED  # such a schema permits every value
        return self.unit.other

    def text(self, words: Words) -> int:
        """Return the size of the largest text that a schema permits.

        This text repeats one character: of all characters that the schema's pattern permits, the one with the largest
        size.
        """
        pattern = words.get("pattern", "")
        if pattern.endswith("_[0-9A-Za-z]{27}$"):
            return _REFERENCE
        quantified = re.search(r"\{\d+,(\d+)\}\)*\$$", pattern)
        max_length = int(quantified[1]) if quantified else _FORMATS.get(words.get("format", ""), UNBOUNDED)
        cost = max((size for sign, size in self.unit.costs.items() if _can_contain(pattern, sign)), default=1)
        return self.unit.text + int(words.get("maxLength") or max_length) * cost + self._of_secret(words)

    def _of_secret(self, words: Words) -> int:
        return self.unit.secret if words.get("format") == "password" else 0

    def fields(self, words: Words) -> int:
        """Return the sum of the largest sizes of an object's fields.

        The sum can exceed the limit of one request, because several requests can set the fields one after the other.
        """
        fields = words.get("properties", {})
        total = sum(len(name) + self.unit.name + self.size(field) for name, field in fields.items())
        if words.get("additionalProperties"):
            pair = self.text(words.get("propertyNames", {})) + 2 + self.size(entries_of(words))
            total += int(words.get("maxProperties", UNBOUNDED)) * pair
        return total


def _can_contain(pattern: str, sign: str) -> bool:
    return any(re.search(pattern, f"{beginning}{sign}") for beginning in _BEGINNINGS)


def entries_of(words: Words) -> Words:
    """Return the schema of an object's additional properties. Return {} if they can have any type."""
    schema = words["additionalProperties"]
    return schema if isinstance(schema, dict) else {}


def of(shape: type[Shape], unit: Unit) -> tuple[Words, Largest]:
    """Return the schema of a request, and the Largest that computes sizes of its fields in a unit."""
    definitions = schemas.of({(shape, "validation"): shape.__name__})
    return definitions[shape.__name__], Largest(unit, definitions)
