"""Rules of fields: values in the annotations of shapes. Each has two sides: what is checked, and what is documented.

Pydantic asks for the first when it makes a shape's model, `make openapi` for the second, in words of JSON Schema. None
imports pydantic before: a shape is declared at every cold start, and read only where there is a body.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chalicelib import ids
from chalicelib.api import words
from chalicelib.api.words import Words

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema


@dataclass(frozen=True, eq=False)
class Check:
    """What must be true of a value of the field's type; `says` is as much of it as JSON Schema has words for.

    `check` returns the value, perhaps in another form; its ValueError says what the value must be.
    """

    check: Callable[..., Any]
    says: Words = field(default_factory=dict)

    def __get_pydantic_json_schema__(self, core: "CoreSchema", handler: "GetJsonSchemaHandler") -> Words:
        return words.both(handler(core), self.says)

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(self.check, handler(source))


@dataclass(frozen=True, eq=False)
class Before(Check):
    """As Check, of what was sent, before anything is known of its type; it lets `also` through, whatever the type."""

    also: tuple[Any, ...] = ()

    def __get_pydantic_json_schema__(self, core: "CoreSchema", handler: "GetJsonSchemaHandler") -> Words:
        said = super().__get_pydantic_json_schema__(core, handler)
        return words.either(said, self.also) if handler.mode == "validation" else said

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(self.check, handler(source))


class Read(Check):
    """What was sent is a string, not of the field's type: `check` makes it so, and is all that looks at it."""

    def __get_pydantic_json_schema__(self, core: "CoreSchema", handler: "GetJsonSchemaHandler") -> Words:
        return {"type": "string", **self.says}

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self.check)


class Beside(Check):
    """As Check, where `check` also sees the fields above this one: those that are right, by name."""

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.with_info_after_validator_function(
            lambda value, info: self.check(value, info.data), handler(source)
        )


class AtPath(Check):
    """As Check, where `check` also sees the values of the request's path."""

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.with_info_after_validator_function(
            lambda value, info: self.check(value, info.context or {}), handler(source)
        )


@dataclass(frozen=True)
class Bounds:
    """Limits of the type that stands directly before them, by the names that pydantic has; it says them itself."""

    limits: Mapping[str, int]

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        return {**handler(source), **self.limits}


@dataclass(frozen=True)
class Unchanged:
    """In a change: a value of these leaves the field as it is, as some clients mean it; its text says so."""

    values: tuple[Any, ...]

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import PydanticOmit, core_schema

        def omit(given: Any) -> Any:
            if given in self.values:
                raise PydanticOmit
            return given

        return core_schema.no_info_before_validator_function(omit, handler(source))

    def __get_pydantic_json_schema__(self, core: "CoreSchema", handler: "GetJsonSchemaHandler") -> Words:
        said = words.either(handler(core), self.values)
        return {**said, "description": f"In a change, {words.named(self.values)} leaves it as it is."}


not_empty = Bounds({"min_length": 1})
unless_nothing = Unchanged((None, {}))


def between(least: int, most: int) -> Bounds:
    """An integer in these bounds, both included."""
    return Bounds({"ge": least, "le": most})


def entries(least: int, most: int) -> Bounds:
    """An array or object with so many entries."""
    return Bounds({**({"min_length": least} if least else {}), "max_length": most})


def max_bytes(limit: int) -> Check:
    """A string of at most so many bytes of UTF-8."""

    def check(text: str) -> str:
        if len(text.encode()) > limit:
            raise ValueError(f"must be at most {limit} bytes of UTF-8")
        return text

    return Check(check, words.at_most_bytes(limit))


def form(pattern: str, sentence: str, *, most: int | None = None) -> Check:
    """A string of at most so many characters that the pattern matches as a whole; the sentence says what it must be.

    The pattern is one that ECMAScript and RE2 read too: it looks neither ahead nor behind.
    """

    def check(text: str) -> str:
        if (most and len(text) > most) or not re.fullmatch(pattern, text, flags=re.ASCII):
            raise ValueError(sentence)
        return text

    return Check(check, {"pattern": f"^(?:{pattern})$", **({"maxLength": most} if most else {})})


def id_of(*prefixes: str) -> Check:
    """A string of the form of an id with one of the prefixes."""

    def check(text: str) -> str:
        if not ids.is_id(text, *prefixes):
            forms = " or ".join(f"{prefix}_…" for prefix in prefixes)
            raise ValueError(f"must be an id of the form {forms}")
        return text

    return Check(check, {"pattern": ids.pattern(*prefixes)})


def if_null(value: Any) -> Before:
    """Null means unspecified, which means the value."""
    return Before(lambda given: value if given is None else given, also=(None,))


def if_empty(value: Any) -> Before:
    """Null and "" mean unspecified, which means the value."""
    return Before(lambda given: value if given is None or given == "" else given, also=("", None))


def if_zero(value: Any) -> Before:
    """Null, "" and 0 mean unspecified, which means the value: some clients send every field they know."""
    return Before(lambda given: value if given in (None, "", 0) and given is not False else given, also=("", 0, None))
