"""Shapes, and the fields that the tables of SPEC 2 share.

A shape is a body, line for line the SPEC's table: an annotated class, whose annotations hold its rules. Those of
requests are read (`check`); those of responses say what is shown, and are only for `make openapi`, as is the text
beneath a field: Python does not keep it.
"""

import unicodedata
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from chalicelib import clock, ids
from chalicelib.api.rules import Before, Check, form, if_empty, if_null, max_bytes
from chalicelib.api.words import Says

if TYPE_CHECKING:
    from pydantic import BaseModel, GetCoreSchemaHandler
    from pydantic_core import CoreSchema

S = TypeVar("S", bound="Shape")

MAX_DOMAIN = 253
DOMAIN = "(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?[.])+[A-Za-z](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"


class Shape:
    """A body. `check` reads values into one, by the pydantic model that is made of it for the first body."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        """Where the shape is the type of another one's field, its model is meant."""
        from chalicelib.api import models

        return handler(models.model(cls))


def check(
    shape: type[S], values: Mapping[str, Any], path: Mapping[str, str] | None = None
) -> tuple[S | None, dict[str, str]]:
    """The values in the shape; or None, and what would be right at each dotted path that is wrong.

    `path` holds the values of the request's path, for the rules that look at them.
    """
    from chalicelib.api import models

    return models.check(shape, values, path or {})


def values(asked: Shape) -> dict[str, Any]:
    """All fields of what `check` returned, as plain values."""
    return cast("BaseModel", asked).model_dump()


def given(asked: Shape) -> dict[str, Any]:
    """The fields that were sent of what `check` returned, by the names they were sent under, as plain values."""
    return cast("BaseModel", asked).model_dump(by_alias=True, exclude_unset=True)


def _time(value: Any) -> Any:
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise ValueError("must be an RFC 3339 time, as a string")
    return clock.parse(value)


def _owner(text: str) -> str:
    if text and not ids.is_id(text, "usr", "bot"):
        raise ValueError("must be the id of a user (usr_…) or bot (bot_…)")
    return text


def _holds_controls(text: str) -> bool:
    return any(unicodedata.category(character) == "Cc" for character in text)


def _printable(text: str) -> str:
    if not text or _holds_controls(text):
        raise ValueError("must not be empty nor hold control characters")
    return text


def _one_line(text: str) -> str:
    if _holds_controls(text):
        raise ValueError("must not hold control characters")
    return text


def _backend(text: str) -> str:
    if not (text.startswith("bkd") and ids.is_id(text, text.partition("_")[0])):
        raise ValueError("must be the id of a backend (bkd…_…)")
    return text


_ONE_LINE = "^[^\\x00-\\x1f\\x7f-\\x9f]*$"

Text = Annotated[str, if_null("")]
Line = Annotated[str, Check(_one_line, {"pattern": _ONE_LINE})]
Name = Annotated[str, Check(_printable, {"minLength": 1, "pattern": _ONE_LINE}), max_bytes(255)]
Description = Annotated[Text, max_bytes(255)]
Metadata = Annotated[Text, max_bytes(4096)]
Time = Annotated[datetime | None, Before(_time, also=("", None))]
OwnerId = Annotated[str, Check(_owner, {"pattern": ids.pattern("usr", "bot")}), if_empty("")]

Domain = Annotated[str, form(DOMAIN, "must be a domain, for example example.com", most=MAX_DOMAIN)]
BackendId = Annotated[str, Check(_backend, {"pattern": ids.pattern("bkd[a-z]*")})]

Uri = Annotated[str, Says({"format": "uri"})]
Timestamp = Annotated[str, Says({"format": "date-time"})]


class Described(Shape):
    """The two fields that every resource takes; as a change, a field that is absent stays as it is."""

    description: Description = ""
    """Optional, at most 255 bytes."""

    metadata: Metadata = ""
    """Arbitrary user-defined data, optional, at most 4096 bytes. Typically a serialized JSON text."""


class Shown(Shape):
    """What every resource shows beside what was asked for."""

    id: str
    """Unique identifier; the order of ids is the order of creation."""

    uri: Uri
    """Absolute address of the resource."""

    created_at: Timestamp
    """When it was created, RFC 3339."""


class Ref(Shape):
    """A pointer to another resource."""

    id: str
    """Its identifier."""

    uri: Uri
    """Its absolute address."""
