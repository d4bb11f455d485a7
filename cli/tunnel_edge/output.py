"""Prints the output of commands: tables for people, JSON for programs, and errors."""

import json
import os
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any


def to_plain(text: str) -> str:
    """Return a text without control characters, which could change the terminal."""
    return "".join(
        character if character in "\n\t" or unicodedata.category(character)[0] != "C" else "�" for character in text
    )


def to_json(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON. Control characters are escaped, including those that JSON permits in strings."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return "".join(f"\\u{ord(character):04x}" if "\x7f" <= character <= "\x9f" else character for character in text)


def note(text: str) -> None:
    """Print a line for people to standard error."""
    print(to_plain(text), file=sys.stderr, flush=True)


def show_object(value: Mapping[str, Any], chosen: str, *, utc: bool = False) -> None:
    """Print one object in the chosen format: lines with its fields, JSON, or only its id."""
    if chosen == "id":
        print(to_plain(str(value.get("id", ""))))
    elif chosen == "table":
        width = max((len(name) for name in value), default=0)
        for name, field in value.items():
            print(f"{name:<{width}}  {to_plain(_cell(field, utc)).replace(chr(10), chr(10) + ' ' * (width + 2))}")
    else:
        print(to_json(value, indent=None if chosen == "ndjson" else 2))


def show_list(items: Iterable[Mapping[str, Any]], chosen: str, columns: Sequence[str], *, utc: bool = False) -> None:
    """Print objects in the chosen format: a table, a JSON array, or a line for each with its JSON or its id."""
    if chosen in ("ndjson", "id"):
        for item in items:
            print(to_plain(str(item.get("id", ""))) if chosen == "id" else to_json(item), flush=True)
    elif chosen == "json":
        print(to_json(list(items), indent=2))
    else:
        _show_table([[_one_line(_cell(_value(item, name), utc)) for name in columns] for item in items], columns)


def show_row(item: Mapping[str, Any], columns: Sequence[str], *, utc: bool = False) -> None:
    """Print one row of a table. Later rows are unknown, so columns are not aligned."""
    print("  ".join(_one_line(_cell(_value(item, name), utc)) for name in columns), flush=True)


def _value(item: Mapping[str, Any], column: str) -> Any:
    """Return the value of a column. `actor.name` is the field `name` of the object in `actor`."""
    value: Any = item
    for name in column.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _show_table(rows: list[list[str]], columns: Sequence[str]) -> None:
    """Print the names of the columns, and the rows. The last column is cut at the terminal's width."""
    table = [[name.upper() for name in columns], *rows]
    widths = [max(len(row[index]) for row in table) for index in range(len(columns))]
    limit = os.get_terminal_size().columns if sys.stdout.isatty() else 0
    for number, row in enumerate(table):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        line = line[: limit - 1] + "…" if limit and len(line) > limit else line
        print(f"\x1b[1m{line}\x1b[0m" if number == 0 and has_colours() else line)


def has_colours() -> bool:
    """Return whether standard output is a terminal that shows colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _one_line(text: str) -> str:
    return to_plain(" ".join(text.split()))


def _cell(value: Any, utc: bool) -> str:
    """Return a value as the text of a table cell. A time is local, or UTC if that is chosen."""
    if isinstance(value, str):
        return _time(value, utc)
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
        return ", ".join(value)
    return json.dumps(value, ensure_ascii=False)


def _time(text: str, utc: bool) -> str:
    """Return a time as `2026-01-31 15:04:05`. Return any other text unchanged."""
    if len(text) != 20 or text[10] != "T" or text[-1] != "Z":
        return text
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return text
    return f"{at:%Y-%m-%d %H:%M:%SZ}" if utc else f"{at.astimezone():%Y-%m-%d %H:%M:%S}"
