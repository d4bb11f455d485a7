"""The operations of the service with their commands, flags and bodies, from a reduced OpenAPI document."""

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tunnel_edge.errors import USAGE, CommandError

_FILE = Path(__file__).with_name("kinds.json")
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True)
class Field:
    """A field of a body or a query. `path` has dots between the names of nested fields.

    `type` is `text`, `integer`, `boolean`, `texts`, `map:text`, `map:integer`, `map` or `json`.
    """

    path: str
    type: str
    help: str = ""
    is_required: bool = False

    @property
    def flag(self) -> str:
        """Return the flag of this field, for example `--acl`."""
        return f"--{self.path.replace('_', '-')}"

    @property
    def is_repeated(self) -> bool:
        """Return whether the flag may occur several times."""
        return self.type == "texts" or self.type.startswith("map")


@dataclass(frozen=True)
class Operation:
    """An operation of the service, with the words that make up its command."""

    id: str
    words: tuple[str, ...]
    method: str
    path: str
    summary: str
    fields: tuple[Field, ...]
    query: tuple[Field, ...]
    headers: tuple[str, ...]
    items: str  # the name of the list in the response, or "" if the operation returns no list
    columns: tuple[str, ...]
    is_open: bool  # whether the operation works without a token

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the ids in the operation's path."""
        return tuple(part[1:-1] for part in self.path.split("/") if part.startswith("{"))


@cache
def load() -> tuple[Operation, ...]:
    """Return all operations of the service."""
    return tuple(
        Operation(
            operation["operation"],
            tuple(operation["words"]),
            operation["method"],
            operation["path"],
            operation["summary"],
            tuple(Field(*field) for field in operation.get("fields", ())),
            tuple(Field(*field) for field in operation.get("query", ())),
            tuple(operation.get("headers", ())),
            operation.get("items", ""),
            tuple(operation.get("columns", ())),
            operation.get("open", False),
        )
        for operation in json.loads(_FILE.read_text(encoding="utf-8"))
    )


def body_of(fields: Iterable[Field], flags: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the body of a request. `flags` has the values of flags on the command line, by dotted path of the field.

    Raises CommandError, which names the flag, if the flags contradict each other or a value is invalid.
    """
    body: dict[str, Any] = {}
    for field in fields:
        if values := flags.get(field.path):
            *above, name = field.path.split(".")
            inner = body
            for part in above:
                inner = inner.setdefault(part, {})
                if not isinstance(inner, dict):
                    raise CommandError(
                        f"{field.flag}: the value of --{part} is not an object, so it has no fields.", USAGE
                    )
            inner[name] = parse(field, values)
    return body


def parse(field: Field, values: Sequence[str]) -> Any:
    """Convert the values of a flag on the command line to the type of its field.

    Raises CommandError if one is invalid.
    """
    texts = [read_text(field.flag, value) for value in values]
    if field.type == "texts":
        return [] if texts == ["[]"] else texts
    if field.type.startswith("map"):
        return _parse_map(field, texts)
    return _parse_one(field.flag, field.type, texts[-1])


def read_text(flag: str, value: str) -> str:
    """Return the text for the value of a flag.

    `@FILE` reads a file, `@-` standard input, and `@@` is an escaped `@`.
    """
    if value.startswith("@@") or not value.startswith("@"):
        return value.removeprefix("@") if value.startswith("@@") else value
    try:
        return sys.stdin.read() if value == "@-" else Path(value[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{flag}: {value[1:]} cannot be read: {error}", USAGE) from error


def _parse_map(field: Field, texts: Sequence[str]) -> dict[str, Any]:
    """Return a map from values like `k=v`. If the type is `map`, a key that occurs twice gets a list of values."""
    if texts == ["{}"]:
        return {}
    entries: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or (key in entries and field.type != "map"):
            problem = "occurs twice" if equals else "has no '='"
            raise CommandError(f"{field.flag}: '{text}' {problem}. Give each entry once, as key=value.", USAGE)
        if field.type == "map":
            entries[key] = [*_as_list(entries[key]), value] if key in entries else value
        else:
            entries[key] = _parse_one(field.flag, field.type.removeprefix("map:"), value)
    return entries


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _parse_one(flag: str, kind: str, text: str) -> Any:
    """Convert a text to a type. If that is impossible, raise a CommandError that says what the flag accepts."""
    if kind == "text":
        return text
    try:
        if kind == "integer":
            return int(text)
        if kind == "number":
            return _finite(float(text))
        return _BOOLEANS[text.lower()] if kind == "boolean" else json.loads(text)
    except (ValueError, KeyError):
        expectation = {"integer": "an integer", "number": "a number", "boolean": "true or false"}.get(kind, "JSON")
        raise CommandError(f"{flag}: '{text}' is not {expectation}.", USAGE) from None


def _finite(number: float) -> float:
    """Return the number. Raises ValueError for a number that JSON cannot represent, such as infinity."""
    if not math.isfinite(number):
        raise ValueError("not finite")
    return number
