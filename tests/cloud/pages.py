"""The shell lines of pages, as a reader pastes them."""

import os
import re
import subprocess
from pathlib import Path
from textwrap import dedent

from tests.conftest import ROOT, Served, processes_with

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
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-s"], cwd=folder, env={**environment, "TMPDIR": str(scratch)},
        input="\n".join([*lines, THE_CLOUD, ""]), capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert processes_with(f"TMPDIR={scratch}") == []
    assert result.stdout.endswith("\nThe cloud: none\n")  # what the shell starts next has a cloud of its own
    return result.stdout


def project(folder: Path, served: Served) -> Path:
    """Return the project's folder after that API was started from it."""
    for entry in ROOT.iterdir():
        if entry.name != ".local":
            (folder / entry.name).symlink_to(entry)
    (folder / ".local").symlink_to(served.local)
    return folder


def assert_logged_in(output: str) -> None:
    assert "logged in as" in output
    assert "Type: ssh-ed25519-cert-v01@openssh.com user certificate" in output
