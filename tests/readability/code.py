"""The texts and the sources that the counts are made of, and the bounds that hold for them."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from tests.conftest import ROOT
from tests.readability import language, sizes
from tests.readability.language import Text

PRODUCT = ("app.py", "chalicelib/*.py", "cli/*.py", "edge/*.py", "terraform/*.py", "infra/*.py", "bench/*.py")
SHIPPED = ("chalicelib/*.py", "edge/*.py")
# The specification is the law's own text, and the changelog of past releases stays as it was.
PAGES = tuple(
    file for file in sizes.tracked(ROOT, "*.md") if not file.startswith(".github/") and file != "docs/specification.md"
)


@cache
def sources(*patterns: str) -> dict[str, str]:
    """Return the text of each Python file that matches the patterns."""
    return {file: (ROOT / file).read_text(encoding="utf-8") for file in sizes.tracked(ROOT, *patterns)}


def docstrings(*patterns: str) -> list[Text]:
    """Return the first paragraphs of all docstrings in the files that match the patterns."""
    return [text for file, source in sources(*patterns).items() for text in language.docstrings(file, source)]


def comments(*patterns: str) -> list[Text]:
    """Return all comments in the files that match the patterns."""
    return [text for file, source in sources(*patterns).items() for text in language.comments(file, source)]


def sentences() -> list[Text]:
    """Return the sentences of all pages."""
    return [text for file in PAGES for text in language.sentences(file, (ROOT / file).read_text(encoding="utf-8"))]


def descriptions() -> list[Text]:
    """Return the sentences of all descriptions and summaries in the OpenAPI document."""
    document = json.loads((ROOT / "chalicelib" / "documents" / "openapi.json").read_text(encoding="utf-8"))
    found = {words: place for place, words in _described(document, "")}
    return [text for words, place in found.items() for text in language.sentences(place, words)]


def _described(value: Any, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, child in value.items():
            if name in ("description", "summary") and isinstance(child, str):
                yield f"{place}/{name}", child
            elif name not in ("example", "examples"):
                yield from _described(child, f"{place}/{name}")
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _described(child, f"{place}/{index}")
