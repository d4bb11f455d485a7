"""Messages of validation errors. They name the dotted path of a field, and the values that it accepts."""

from collections.abc import Iterable, Mapping
from typing import Any

_MAX_PATH = 200  # the most characters of a field's dotted path in an error
_SENTENCES = {  # from the type of a pydantic error to the message in the response
    "missing": "is required",
    "string_type": "must be a string",
    "string_unicode": "must be valid Unicode",
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "int_parsing_size": "must be an integer with fewer digits",
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


def join_path(path: Iterable[int | str]) -> str:
    """Return the dotted path of a field, truncated to 200 characters."""
    text = ".".join(str(step) for step in path if step != "[key]")[:_MAX_PATH]
    return text.encode(errors="backslashreplace").decode()  # escapes lone surrogates, which UTF-8 cannot encode


def describe_unknown(names: Iterable[str]) -> str:
    """Return the message for an unknown field or parameter. It lists the accepted `names`."""
    return f"is not accepted here; accepted: {', '.join(names) or 'none'}"


def describe(code: str, context: Mapping[str, Any], *, otherwise: str) -> str:
    """Return the message for a pydantic error of the type `code`.

    `context` has values for the message. `otherwise` is the message for an unknown type.
    """
    return str(context["error"]) if code == "value_error" else _SENTENCES.get(code, otherwise).format(**context)
