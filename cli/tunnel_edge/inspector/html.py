"""Builds HTML in which every text is escaped. Does no I/O."""

import html
from collections.abc import Iterable
from typing import TypeAlias

_VOID = frozenset({"input", "link", "meta"})


class Html(str):
    """A text that is HTML, so it is not escaped again. Only `tag` and `join` create it."""


Content: TypeAlias = "str | Html"


def tag(element: str, /, *content: Content, **attributes: str | bool | None) -> Html:
    """Return an element. Texts and attributes are escaped; an attribute that is None or False is left out.

    Underscores in names become hyphens; the last one is dropped (`class_`).
    """
    written = []
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            written.append(f" {key}")
        elif value is not None and value is not False:
            written.append(f' {key}="{html.escape(value)}"')
    opening = f"<{element}{''.join(written)}>"
    return Html(opening if element in _VOID else f"{opening}{join(content)}</{element}>")


def join(content: Iterable[Content]) -> Html:
    """Concatenate content. Texts are escaped."""
    return Html("".join(part if isinstance(part, Html) else html.escape(part) for part in content))
