"""Rules for fields: what the tables of SPEC 2 share, and the sentence that names each fault.

A shape is a pydantic model of a request body, line for line the SPEC's table.
"""

import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails

from chalicelib import clock, ids

S = TypeVar("S", bound="Shape")
DOMAIN = "(?=.{1,253}$)(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?[.])+[A-Za-z](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_MAX_PATH = 200  # characters of a field's dotted path that an error repeats
_SENTENCES = {
    "missing": "is required",
    "string_type": "must be a string",
    "string_unicode": "must be valid Unicode",
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "int_parsing_size": "must be an integer of ordinary size",
    "bool_type": "must be true or false",
    "list_type": "must be an array",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "literal_error": "must be one of {expected}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
    "too_long": "must have at most {max_length} entries",
}


class Shape(BaseModel):
    """A request body: no field but these, no value of another type, no secret in what it says of itself."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True, defer_build=True)


def max_bytes(limit: int) -> AfterValidator:
    """A string of at most so many bytes of UTF-8."""

    def check(text: str) -> str:
        if len(text.encode()) > limit:
            raise ValueError(f"must be at most {limit} bytes of UTF-8")
        return text

    return AfterValidator(check)


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


def form(pattern: str, sentence: str) -> AfterValidator:
    """A string that the pattern matches as a whole; the sentence says what it must be."""
    compiled = re.compile(pattern, flags=re.ASCII)

    def check(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(sentence)
        return text

    return AfterValidator(check)


def id_of(*prefixes: str) -> AfterValidator:
    """A string of the form of an id with one of the prefixes."""

    def check(text: str) -> str:
        if not ids.is_id(text, *prefixes):
            forms = " or ".join(f"{prefix}_…" for prefix in prefixes)
            raise ValueError(f"must be an id of the form {forms}")
        return text

    return AfterValidator(check)


def if_null(value: Any) -> BeforeValidator:
    """Null means unspecified, which means the value."""
    return BeforeValidator(lambda given: value if given is None else given)


def if_empty(value: Any) -> BeforeValidator:
    """Null and "" mean unspecified, which means the value."""
    return BeforeValidator(lambda given: value if given is None or given == "" else given)


def if_zero(value: Any) -> BeforeValidator:
    """Null, "" and 0 mean unspecified, which means the value: some clients send every field they know."""
    return BeforeValidator(lambda given: value if given in (None, "", 0) and given is not False else given)


def unless_nothing(*names: str) -> Any:
    """For the class of a change: those of the fields that are null or {} stay as they are, as some clients mean it."""

    def drop(values: Any) -> Any:
        return {name: value for name, value in values.items() if name not in names or value not in ({}, None)}

    return model_validator(mode="before")(drop)


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


Text = Annotated[str, if_null("")]
Line = Annotated[str, AfterValidator(_one_line)]
Name = Annotated[str, AfterValidator(_printable), max_bytes(255)]
Description = Annotated[Text, max_bytes(255)]
Metadata = Annotated[Text, max_bytes(4096)]
Time = Annotated[datetime | None, BeforeValidator(_time)]
OwnerId = Annotated[Text, AfterValidator(_owner)]

Domain = Annotated[str, form(DOMAIN, "must be a domain, for example example.com")]
BackendId = Annotated[str, AfterValidator(_backend)]


class Described(Shape):
    """The two fields that every resource takes; as a change, a field that is absent stays as it is."""

    description: Description = ""
    metadata: Metadata = ""


def check(
    shape: type[S], values: Mapping[str, Any], path: Mapping[str, str] | None = None
) -> tuple[S | None, dict[str, str]]:
    """The values in the shape; or None, and what would be right at each dotted path that is wrong.

    Validators find the values of the request's path in their `info.context`.
    """
    try:
        return shape.model_validate(values, context=path), {}
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        return None, {_dotted(fault["loc"]): _sentence(shape, fault) for fault in faults}


def _dotted(path: tuple[int | str, ...]) -> str:
    text = ".".join(str(step) for step in path if step != "[key]")[:_MAX_PATH]
    return text.encode(errors="backslashreplace").decode()  # a lone surrogate cannot leave in UTF-8


def _sentence(shape: type[Shape], fault: ErrorDetails) -> str:
    context = fault.get("ctx", {})
    if fault["type"] == "value_error":
        return str(context["error"])
    if fault["type"] == "extra_forbidden":
        known = ", ".join(_known(shape, fault["loc"])) or "none"
        return f"is not a field here; known: {known}"
    return _SENTENCES.get(fault["type"], fault["msg"]).format(**context)


def _known(shape: type[Shape], path: tuple[int | str, ...]) -> list[str]:
    """The names of the fields beside the last step of a path."""
    names = {field.alias or name: field.annotation for name, field in shape.model_fields.items()}
    if len(path) == 1:
        return list(names)
    below = names[str(path[0])]
    inner = next(part for part in (below, *get_args(below)) if isinstance(part, type) and issubclass(part, Shape))
    return _known(inner, path[2:] if isinstance(path[1], int) else path[1:])  # an entry of an array is not a field
