"""docs/clients.md: every shell line, as a reader pastes it."""

from pathlib import Path

import pytest

from tests.cloud.test_readme import blocks, paste, project
from tests.conftest import Served

PAGE = "docs/clients.md"
SAID = {
    "Python": "Python: rsa of the build machines\nPython: 404 not_found\n",
    "TypeScript": "TypeScript: edge 1.3\nTypeScript: 404 not_found\n",
    "Go": "Go: of the site\nGo: 404 not_found\n",
}


@pytest.mark.needs("bash", "go", "java", "npm", "the environment of make", "the generator of the Go client")
@pytest.mark.parametrize("language", SAID)
def test_every_shell_line_of_the_page_works(served: Served, tmp_path: Path, language: str) -> None:
    first, *_ = blocks(PAGE)
    assert SAID[language] in paste([first, *blocks(PAGE, language)], project(tmp_path, served))


def test_every_block_of_the_page_is_run() -> None:
    assert len(blocks(PAGE)) == 1 + len(SAID)
