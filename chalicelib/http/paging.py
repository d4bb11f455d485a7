"""Lists in pages, newest first. In a filtered list, a page can be empty although more pages follow."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from chalicelib import ids
from chalicelib.http import messages
from chalicelib.http.messages import Parameters
from chalicelib.model.base.kinds import Kind
from chalicelib.schema import sizes
from chalicelib.schema.fields import Uri
from chalicelib.schema.rules import After
from chalicelib.schema.shapes import Shape
from chalicelib.storage.records.items import Item

NO_QUERY: Mapping[str, str] = {}


def _parse_limit(text: str) -> int:
    if not re.fullmatch("[1-9][0-9]?|100", text):
        raise ValueError("must be a whole number from 1 to 100")
    return int(text)


@dataclass(frozen=True)
class Page:
    """The query parameters that select one page of a list."""

    before_id: str | None = None
    limit: int = 100


def parameters(kind: Kind) -> Parameters:
    """Return the rules for `before_id` and `limit`, the query parameters of a kind's list."""
    return {"before_id": _build_before_id_rule(kind), "limit": _LIMIT}


def _build_before_id_rule(kind: Kind) -> After:
    def check(text: str) -> str:
        if not ids.is_id(text, text.partition("_")[0]):
            raise ValueError("must be an id of a resource that exists or existed")
        if not kind.has(text):
            raise ValueError(f"must be the id of an entry of this list, and begin with {kind.prefix}_")
        return text

    about = "Only entries older than this id. The resource with this id may be deleted."
    return After(check, {"type": "string", "pattern": ids.pattern(kind.prefix), "description": about})


_LIMIT = After(
    _parse_limit,
    {
        "type": "integer",
        "minimum": 1,
        "maximum": 100,
        "default": Page.limit,
        "description": "The maximum number of entries in a page.",
    },
)


class Listed(Shape):
    """A page of a list, newest first."""

    uri: Uri
    """Absolute URL of the list."""

    next_page_uri: Uri | None
    """Absolute URL of the next page; null on the last page."""


def build_shape(array: str, entry: type[Shape]) -> type[Shape]:
    """Return the shape of a page of a list. The field with the name `array` has the entries of the page."""
    return type("Listed", (Listed,), {"__annotations__": {array: list[entry]}})  # type: ignore[valid-type]


def text(
    array: str,
    entries: Iterator[Mapping[str, Any]],
    last: str,
    uri: str,
    page: Page,
    *,
    has_more: bool,
    query: Mapping[str, str] = NO_QUERY,
) -> str:
    """Return the JSON of a page, with as many entries as fit into a response, but at least one.

    `last` is the id of the last item that was read for this page. The URL of the next page contains this id. If some
    entries do not fit, the URL contains the id of the last entry that fits. `query` has further query parameters of the
    URL.
    """
    texts, cut = _take_fitting(entries)
    has_rest = cut not in ("", last)
    following = urlencode({**query, "before_id": cut if has_rest else last, "limit": page.limit})
    next_page_uri = f"{uri}?{following}" if has_more or has_rest else None
    uris = {"uri": uri, "next_page_uri": next_page_uri}
    return f'{{"{array}":[{",".join(texts)}],{messages.text(uris)[1:]}'


def find_last_id(items: Sequence[Item]) -> str:
    """Return the id of the last item. Return "" if there are no items."""
    return items[-1].id if items else ""


def _take_fitting(entries: Iterator[Mapping[str, Any]]) -> tuple[list[str], str]:
    """Return the JSON of the entries that fit into a response. Also return the id of the last entry that fits, or "" if
    all fit.

    Making an entry costs reads and memory. So the next entry is not made if there is no room for an entry as large as
    the largest one so far.
    """
    texts: list[str] = []
    last_id, size, largest = "", 0, 0
    while size + largest < sizes.MAX_ANSWER:
        entry = next(entries, None)
        if entry is None:
            return texts, ""
        text = messages.text(entry)
        largest = max(largest, sizes.measure_encoded(text))
        if texts and size + sizes.measure_encoded(text) >= sizes.MAX_ANSWER:
            break
        texts.append(text)
        last_id, size = entry["id"], size + sizes.measure_encoded(text)
    return texts, last_id
