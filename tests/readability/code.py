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
    file
    for file in sizes.list_tracked(ROOT, "*.md")
    if not file.startswith(".github/") and file != "docs/specification.md"
)


@cache
def sources(*patterns: str) -> dict[str, str]:
    """Return the text of each Python file that matches the patterns."""
    return {file: (ROOT / file).read_text(encoding="utf-8") for file in sizes.list_tracked(ROOT, *patterns)}


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
    location_by_text = {words: location for location, words in _find_descriptions(document, "")}
    return [text for words, location in location_by_text.items() for text in language.sentences(location, words)]


def _find_descriptions(value: Any, location: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, child in value.items():
            if name in ("description", "summary") and isinstance(child, str):
                yield f"{location}/{name}", child
            elif name not in ("example", "examples"):
                yield from _find_descriptions(child, f"{location}/{name}")
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _find_descriptions(child, f"{location}/{index}")
