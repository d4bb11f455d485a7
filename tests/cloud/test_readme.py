"""Every shell line of README, guide and the page on SSH, as a reader pastes it: into one shell, from top to bottom."""

from pathlib import Path

import pytest

from tests.cloud.pages import assert_logged_in, blocks, paste, project
from tests.conftest import Served

# These serve or deploy: test_make_run.py and the other tests of this folder run them.
SERVING = {
    "README.md": [
        "make run",
        "ssh -p 2222 -R demo:80:localhost:3000 127.0.0.1",
        "make cloud",
        "make package STAGE=prod ARCH=arm64",
    ],
    "docs/guide.md": ["(. .local/cloud.env && exec .venv/bin/chalice local --stage local --port 8001 --no-autoreload)"],
}


@pytest.mark.needs("bash", "curl", "jq", "openssl", "ssh", "sshd", "the environment of make")
def test_every_shell_line_of_the_readme_works(served: Served, tmp_path: Path) -> None:
    other_blocks = [
        block for block in blocks("README.md") if not block.startswith("te ")
    ]  # tests/cli/test_pages.py has these
    lines = [block for block in other_blocks if block not in SERVING["README.md"]]
    output = paste(lines, project(tmp_path, served))
    assert_logged_in(output)
    assert '"operationId": "create_api_key"' in output


@pytest.mark.needs("bash", "curl", "jq", "openssl", "ssh", "sshd", "the environment of make")
def test_every_shell_line_of_the_guide_works(served: Served, tmp_path: Path) -> None:
    lines = [block for block in blocks("docs/guide.md") if block not in SERVING["docs/guide.md"]]
    output = paste(lines, project(tmp_path, served))
    assert '"subject_common_name": "app.example.com"' in output
    assert '"metadata": "A demonstration"' in output
    assert "is online until Ctrl-C" in (served.local / "demo.log").read_text()
    assert '"error_code":"unauthenticated"' in output
    assert "True\n400 must be at least 200\n" in output


@pytest.mark.needs("bash", "curl", "jq", "ssh", "sshd")
def test_every_shell_line_of_the_page_on_ssh_works(served: Served, tmp_path: Path) -> None:
    lines = paste(blocks("docs/ssh.md"), project(tmp_path, served)).splitlines()
    assert [line for line in lines if line.endswith((" in", " refused", " believed"))] == [
        "ada is in",
        "bob is in",
        "ada is refused",
        "bob is in",
        "bob is refused",
        "db.example.com is believed",
        "web.example.com is not believed",
        "db.example.com is not believed",
        "dee is in",
        "cyd is in",
        "bob is refused",
        "dee is in",
        "cyd is refused",
        "bob is refused",
    ]
    assert lines.count('"The authority has revoked this public key: use a new key."') == 2
    certificate_lines = [line.split("\t") for line in lines if "\tsucrt_" in line]
    assert [address for _, address, *_ in certificate_lines] == ["127.0.0.1"]  # of bob's, and nobody else's


@pytest.mark.parametrize("page", SERVING)
def test_the_blocks_that_serve_are_still_there(page: str) -> None:
    assert [block for block in blocks(page) if block in SERVING[page]] == SERVING[page]
