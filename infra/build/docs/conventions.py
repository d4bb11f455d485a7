"""Splits docs/conventions.md into sections for the reference page (GET /docs).

The page contains these sections, because a deployment has no folder docs/ to which the page could link.
"""

import re
from dataclasses import dataclass
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from infra import ROOT

_FILE = ROOT / "docs" / "conventions.md"
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
_LINK_TO_A_FILE = re.compile(r"\[([^]]+)\]\((?!#|https:)[^)]+\)")  # a Markdown link to a file: show only its text


@dataclass(frozen=True)
class Section:
    """A heading and its content, up to the next heading."""

    level: int
    address: str
    title: Markup
    html: Markup


def sections() -> list[Section]:
    """Return the sections of the file, with its title first."""
    tokens = _MARKDOWN.parse(_LINK_TO_A_FILE.sub(r"\1", _FILE.read_text(encoding="utf-8")))
    starts = [index for index, token in enumerate(tokens) if token.type == "heading_open"]
    return [_section(tokens[start:end]) for start, end in pairwise([*starts, len(tokens)])]


def inline(text: str) -> Markup:
    """Render one text of the OpenAPI document, which can contain code in Markdown, as inline HTML."""
    return Markup(_MARKDOWN.renderInline(text.replace("\n\n", " ")))  # noqa: S704, raw HTML is escaped


def _section(tokens: list[Token]) -> Section:
    heading, title, _, *rest = tokens
    html = _MARKDOWN.renderer.render(rest, _MARKDOWN.options, {})
    # the same anchor that GitHub gives to this heading: links to sections must work on GitHub and on the page
    address = re.sub(r"[^\w -]", "", title.content.lower()).replace(" ", "-")
    return Section(int(heading.tag[1:]), address, inline(title.content), Markup(html))  # noqa: S704
