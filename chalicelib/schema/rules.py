"""Rules of fields: values in the annotations of shapes. A rule checks a value, and says so in JSON Schema.

They have pydantic's names: After, Before and Plain validators, WithData for one that sees other fields, WithContext for
one that sees the path. None imports pydantic before a model is made: a shape is declared at every cold start, and read
only where there is a body.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chalicelib import ids
from chalicelib.model import kinds
from chalicelib.schema import json_schema as schemas
from chalicelib.schema import sizes
from chalicelib.schema.json_schema import JsonSchema
from chalicelib.schema.shapes import Shape

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema


@dataclass(frozen=True, eq=False)
class After:
    """A check of a value that has the field's type already.

    `check` returns the value, perhaps in another form; its ValueError says what the value must be. `json_schema` is as
    much of that as JSON Schema can express.
    """

    check: Callable[..., Any]
    json_schema: JsonSchema = field(default_factory=dict)

    def __get_pydantic_json_schema__(self, core: "CoreSchema", handler: "GetJsonSchemaHandler") -> JsonSchema:
        return schemas.both(handler(core), self.json_schema)

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(self.check, handler(source))


class Before(After):
    """A check of what was sent, before its type is looked at. The document is silent of what it tolerates besides."""

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(self.check, handler(source))


class Plain(After):
    """A check that alone turns the string that was sent into the field's type."""

    def __get_pydantic_json_schema__(self, core: "CoreSchema", handler: "GetJsonSchemaHandler") -> JsonSchema:
        return {"type": "string", **self.json_schema}

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self.check)


class WithData(After):
    """An After whose `check` also gets the valid fields above this one, by name."""

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.with_info_after_validator_function(
            lambda value, info: self.check(value, info.data), handler(source)
        )


class WithContext(After):
    """An After whose `check` also gets the values of the request's path, by name."""

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.with_info_after_validator_function(
            lambda value, info: self.check(value, info.context or {}), handler(source)
        )


@dataclass(frozen=True, eq=False)
class Bounds:
    """Limits of the type that stands directly before them, by pydantic's names, which JSON Schema expresses itself."""

    limits: Mapping[str, int]

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        return {**handler(source), **self.limits}


@dataclass(frozen=True)
class Unchanged:
    """Values that leave the field as it is in a change, as some clients mean them; the document does not tell."""

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


def between(least: int, most: int) -> Bounds:
    """Require an integer in these bounds, both included."""
    return Bounds({"ge": least, "le": most})


def entries(least: int, most: int) -> Bounds:
    """Require an array or object with so many entries."""
    return Bounds({**({"min_length": least} if least else {}), "max_length": most})


def max_bytes(limit: int) -> After:
    """Require a string of at most so many bytes of UTF-8."""

    def check(text: str) -> str:
        if len(text.encode()) > limit:
            raise ValueError(f"must be at most {limit} bytes of UTF-8")
        return text

    return After(check, schemas.at_most_bytes(limit))


def max_encoded(limit: int) -> After:
    """Require a value of at most so many characters as answers carry it, in JSON that stands in JSON.

    So are bounded what an edge shows a hundred times, for all of it fits one answer.
    """

    def check(value: Any) -> Any:
        plain = value.values() if isinstance(value, Shape) else value
        if sizes.encoded(json.dumps(plain, separators=(",", ":"))) > limit:
            raise ValueError(f"must be at most {limit} characters, counted in JSON that stands in JSON once more")
        return value

    return After(check)


def form(pattern: str, sentence: str, *, most: int | None = None) -> After:
    """Require a string that a pattern matches as a whole; the sentence says what it must be, `most` how long it may be.

    The pattern is one that ECMAScript and RE2 read too: it looks neither ahead nor behind.
    """

    def check(text: str) -> str:
        if (most and len(text) > most) or not re.fullmatch(pattern, text, flags=re.ASCII):
            raise ValueError(sentence)
        return text

    return After(check, {"pattern": f"^(?:{pattern})$", **({"maxLength": most} if most else {})})


def id_of(field: str, sentence: str = "") -> After:
    """Require an id of one of the kinds that a field of that name may hold; the sentence says what it must be."""
    found = kinds.named_by(field)
    prefixes = [kind.prefix for kind in found if not any(kind.is_covered_by(other) for other in found)]
    rule = sentence or f"must be an id of the form {' or '.join(f'{prefix}_…' for prefix in prefixes)}"

    def check(text: str) -> str:
        if not any(kind.has(text) for kind in found):
            raise ValueError(rule)
        return text

    return After(check, {"pattern": ids.pattern(*prefixes)})


def if_null(value: Any) -> Before:
    """Read null as the value: some clients send null for what is unspecified."""
    return Before(lambda given: value if given is None else given)


def if_empty(value: Any) -> Before:
    """Read null and "" as the value: some clients send them for what is unspecified."""
    return Before(lambda given: value if given is None or given == "" else given)


def if_zero(value: Any) -> Before:
    """Read null, "" and 0 as the value: some clients send every field they know."""
    return Before(lambda given: value if given in (None, "", 0) and given is not False else given)
