"""Every shell line of README, guide and the page on SSH, as a reader pastes it: into one shell, from top to bottom."""

import os
import re
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest

from tests.conftest import ROOT, Served, processes_with

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
THE_CLOUD = 'echo "The cloud: ${AWS_ENDPOINT_URL-none}"'


def blocks(page: str, heading: str = "") -> list[str]:
    """Return the shell blocks of a page, or those below one of its headings."""
    text = (ROOT / page).read_text()
    if heading:
        text = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [dedent(block).strip() for block in re.findall(r"^ *```sh\n(.*?)^ *```$", text, re.M | re.S)]


def paste(lines: list[str], folder: Path) -> str:
    """Return the output of a shell that reads these lines from its input, as from a terminal.

    A program that reads its input too would swallow the lines behind its own.
    """
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "AWS_DEFAULT_REGION") if name in os.environ}
    scratch = folder.with_name(f"{folder.name}-scratch")
    scratch.mkdir()
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-s"], cwd=folder, env={**environment, "TMPDIR": str(scratch)},
        input="\n".join([*lines, THE_CLOUD, ""]), capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert processes_with(f"TMPDIR={scratch}") == []
    assert done.stdout.endswith("\nThe cloud: none\n")  # what the shell starts next has a cloud of its own
    return done.stdout


def project(folder: Path, served: Served) -> Path:
    """Return the project's folder after that API was started from it."""
    for entry in ROOT.iterdir():
        if entry.name != ".local":
            (folder / entry.name).symlink_to(entry)
    (folder / ".local").symlink_to(served.local)
    return folder


def assert_logged_in(said: str) -> None:
    assert "logged in as" in said
    assert "Type: ssh-ed25519-cert-v01@openssh.com user certificate" in said


@pytest.mark.needs("bash", "curl", "jq", "openssl", "ssh", "sshd", "the environment of make")
def test_every_shell_line_of_the_readme_works(served: Served, tmp_path: Path) -> None:
    lines = [block for block in blocks("README.md") if block not in SERVING["README.md"]]
    said = paste(lines, project(tmp_path, served))
    assert_logged_in(said)
    assert '"operationId": "create_api_key"' in said


@pytest.mark.needs("bash", "curl", "jq", "openssl", "ssh", "sshd", "the environment of make")
def test_every_shell_line_of_the_guide_works(served: Served, tmp_path: Path) -> None:
    lines = [block for block in blocks("docs/guide.md") if block not in SERVING["docs/guide.md"]]
    said = paste(lines, project(tmp_path, served))
    assert '"subject_common_name": "app.example.com"' in said
    assert '"metadata": "A demonstration"' in said
    assert "is online until Ctrl-C" in (served.local / "demo.log").read_text()
    assert '"error_code":"unauthenticated"' in said
    assert "True\n400 must be at least 200\n" in said


@pytest.mark.needs("bash", "curl", "jq", "ssh", "sshd")
def test_every_shell_line_of_the_page_on_ssh_works(served: Served, tmp_path: Path) -> None:
    said = paste(blocks("docs/ssh.md"), project(tmp_path, served)).splitlines()
    assert [line for line in said if line.endswith((" in", " refused", " believed"))] == [
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
    assert said.count('"The authority has revoked this public key."') == 2
    signed = [line.split("\t") for line in said if "\tsucrt_" in line]
    assert [address for _, address, *_ in signed] == ["127.0.0.1"]  # of bob's, and nobody else's


@pytest.mark.parametrize("page", SERVING)
def test_the_blocks_that_serve_are_still_there(page: str) -> None:
    assert [block for block in blocks(page) if block in SERVING[page]] == SERVING[page]
