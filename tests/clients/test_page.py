"""docs/clients.md: every shell line, as a reader pastes it."""

from pathlib import Path

import pytest

from tests.cloud.pages import blocks, paste, project
from tests.conftest import Served

PAGE = "docs/clients.md"
SAID = {
    "Python": "Python: ed25519 of the build machines\nPython: 3 in pages of two\nPython: 404 not_found\n",
    "TypeScript": "TypeScript: 3 in pages of two\nTypeScript: edge 1.3\nTypeScript: 404 not_found\n",
    "Go": "Go: 3 in pages of two\n" + 3 * "Go: 404 not_found\n",
}


@pytest.mark.needs("bash", "go", "java", "npm", "the environment of make", "the generator of the Go client")
@pytest.mark.parametrize("language", SAID)
def test_every_shell_line_of_the_page_works(served: Served, tmp_path: Path, language: str) -> None:
    first, *_ = blocks(PAGE)
    assert SAID[language] in paste([first, *blocks(PAGE, language)], project(tmp_path, served))


def test_every_block_of_the_page_is_run() -> None:
    assert len(blocks(PAGE)) == 1 + len(SAID)
