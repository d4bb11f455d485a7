"""The page of the reference as a reader without JavaScript has it: its text, its addresses, its samples."""

import html
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from tests.conftest import ROOT

FILE = ROOT / "chalicelib" / "documents" / "docs.html"
_IS_ALONE = {"meta", "link", "input", "br", "hr"}


def words(text: str) -> str:
    """Return a text with one space wherever it has any."""
    return " ".join(text.split())


@dataclass
class Page(HTMLParser):
    """The page's text by the addresses of its sections, and the number of its elements."""

    text: dict[str, str] = field(default_factory=dict)
    addresses: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    elements: int = 0
    _open: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(FILE.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements += 1
        attributes = dict(attrs)
        if address := attributes.get("id"):
            self.addresses.append(address)
        if tag == "a":
            self.links.append(attributes["href"] or "")
        if tag not in _IS_ALONE:
            self._open.append((tag, address if tag == "section" and address else ""))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag, self.getpos()

    def handle_data(self, data: str) -> None:
        if not {tag for tag, _ in self._open} & {"script", "style"}:
            section = next((address for _, address in reversed(self._open) if address), "")
            self.text[section] = self.text.get(section, "") + data


def samples(language: str) -> Iterator[tuple[str, str]]:
    """Yield the sample of each operation in a language, by the operation's id."""
    sections = re.findall(r'<section class="operation" id="(\w+)".*?>(.*?)</section>', FILE.read_text(), re.S)
    for operation, content in sections:
        (sample,) = re.findall(rf'<figure class="{language}">.*?<code>(.*?)</code>', content, re.S)
        yield operation, html.unescape(sample) + "\n"


def document() -> Any:
    return json.loads((ROOT / "chalicelib" / "documents" / "openapi.json").read_text())
