"""Rules for fields, used in the annotations of shapes. Each checks a value and describes it in JSON Schema.

After, Before and Plain are named after pydantic's validators. WithData also gets the other fields, WithContext the
request's path. No rule imports pydantic before a model is created: shapes are declared at every cold start, but often
not needed.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chalicelib import clock, ids
from chalicelib.model.base import kinds
from chalicelib.schema import json_schema as schemas
from chalicelib.schema import sizes
from chalicelib.schema.json_schema import JsonSchema
from chalicelib.schema.shapes import Shape

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema


@dataclass(frozen=True, eq=False)
class After:
    """A check of a value that already has the field's type.

    `check` returns the value, possibly converted. A ValueError of `check` names the accepted values. `json_schema` is
    the part of the rule that JSON Schema can express.
    """

    check: Callable[..., Any]
    json_schema: JsonSchema = field(default_factory=dict)

    def __get_pydantic_json_schema__(self, core: "CoreSchema", handler: "GetJsonSchemaHandler") -> JsonSchema:
        return schemas.merge(handler(core), self.json_schema)

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(self.check, handler(source))


class Before(After):
    """A check of the value as the client sent it, before its type is validated.

    If the check converts values that the type does not permit, the OpenAPI document does not show these values.
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(self.check, handler(source))


class Plain(After):
    """A check in place of pydantic's validation. It converts a string to the field's type."""

    def __get_pydantic_json_schema__(self, core: "CoreSchema", handler: "GetJsonSchemaHandler") -> JsonSchema:
        return {"type": "string", **self.json_schema}

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self.check)


class WithData(After):
    """A check like `After`. Its function also gets the valid fields that the shape declares earlier, by name."""

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.with_info_after_validator_function(
            lambda value, info: self.check(value, info.data), handler(source)
        )


class WithContext(After):
    """A check like `After`. Its function also gets the variables of the request's path, by name."""

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.with_info_after_validator_function(
            lambda value, info: self.check(value, info.context or {}), handler(source)
        )


@dataclass(frozen=True, eq=False)
class Bounds:
    """Limits of the preceding type in an annotation, with pydantic's names, such as `ge`.

    Pydantic writes their JSON Schema.
    """

    limits: Mapping[str, int]

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        return {**handler(source), **self.limits}


@dataclass(frozen=True)
class Unchanged:
    """Values that count as an absent field. Some clients send them for a field that must stay unchanged.

    The OpenAPI document does not show these values.
    """

    values: tuple[Any, ...]

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import PydanticOmit, core_schema

        def omit(value: Any) -> Any:
            if value in self.values:
                raise PydanticOmit
            return value

        return core_schema.no_info_before_validator_function(omit, handler(source))


not_empty = Bounds({"min_length": 1})
unless_nothing = Unchanged(({},))
unless_blank = Unchanged(("",))


def between(minimum: int, maximum: int) -> Bounds:
    """Require an integer between two bounds, both included."""
    return Bounds({"ge": minimum, "le": maximum})


def entries(minimum: int, maximum: int) -> Bounds:
    """Require an array or object with `minimum` to `maximum` entries."""
    return Bounds({**({"min_length": minimum} if minimum else {}), "max_length": maximum})


def max_bytes(limit: int) -> After:
    """Require a string of at most `limit` bytes of UTF-8."""

    def check(text: str) -> str:
        if len(text.encode()) > limit:
            raise ValueError(f"must be at most {limit} bytes of UTF-8")
        return text

    return After(check, schemas.at_most_bytes(limit))


def max_encoded(limit: int) -> After:
    """Require a value that takes at most `limit` characters in a response.

    The value is counted as JSON in ASCII. Each quote and backslash counts twice, because Lambda sends the response as a
    JSON string, which escapes them. The limits are chosen so that a page of a hundred edges fits into one response.
    """

    def check(value: Any) -> Any:
        plain = value.values() if isinstance(value, Shape) else value
        if sizes.measure_encoded(json.dumps(plain, separators=(",", ":"))) > limit:
            raise ValueError(
                f"must be at most {limit} characters as JSON in ASCII, with each quote and backslash counted twice"
            )
        return value

    return After(check, {schemas.MAX_ENCODED: limit})


def form(pattern: str, sentence: str, *, max_length: int | None = None) -> After:
    """Require a string that matches a pattern completely, with at most `max_length` characters.

    `sentence` is the error message. The pattern must also be valid in ECMAScript and RE2: no lookahead or lookbehind.
    """

    def check(text: str) -> str:
        if (max_length and len(text) > max_length) or not re.fullmatch(pattern, text, flags=re.ASCII):
            raise ValueError(sentence)
        return text

    return After(check, {"pattern": f"^(?:{pattern})$", **({"maxLength": max_length} if max_length else {})})


def id_of(field: str, sentence: str = "") -> After:
    """Require the id of a resource to which `field` can refer. `sentence` replaces the default error."""
    accepted = kinds.list_by_field(field)
    prefixes = [kind.prefix for kind in accepted if not any(kind.is_covered_by(other) for other in accepted)]
    rule = sentence or f"must be an id of the form {' or '.join(f'{prefix}_…' for prefix in prefixes)}"

    def check(text: str) -> str:
        if not any(kind.has(text) for kind in accepted):
            raise ValueError(rule)
        return text

    return After(check, {"pattern": ids.pattern(*prefixes)})


def if_null(default: Any) -> Before:
    """Read null as `default`: some clients send null for unspecified fields."""
    return Before(lambda value: default if value is None else value)


def if_empty(default: Any) -> Before:
    """Read null and "" as `default`: some clients send them for unspecified fields."""
    return Before(lambda value: default if value is None or value == "" else value)


def if_zero(default: Any) -> Before:
    """Read null, "" and 0 as `default`: some clients send every field they know."""
    return Before(lambda value: default if value in (None, "", 0) and value is not False else value)


def _require_one_line(text: str) -> str:
    if _has_controls(text):
        raise ValueError("must not contain control characters")
    return text


def _require_printable(text: str) -> str:
    if not text or _has_controls(text):
        raise ValueError("must not be empty or contain control characters")
    return text


def _has_controls(text: str) -> bool:
    return any(unicodedata.category(character) == "Cc" for character in text)


def _parse_time(value: Any) -> Any:
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise ValueError("must be an RFC 3339 time as a string")
    return clock.parse(value)


_PRINTED = "^[^\\x00-\\x1f\\x7f-\\x9f]*$"
ONE_LINE = After(_require_one_line, {"pattern": _PRINTED})
PRINTABLE = After(_require_printable, {"minLength": 1, "pattern": _PRINTED})
RFC_3339 = Before(_parse_time)
