"""Every shell line of the README, run in one shell from top to bottom as a reader would paste it."""

import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from tests.conftest import ROOT, Served, free_port

# The first two serve until Ctrl-C: test_make_run.py runs them. The others are run for the tests in cloud/.
SERVING = [
    "make run",
    "(. .local/cloud.env && exec .venv/bin/chalice local --stage local --port 8001 --no-autoreload)",
    "make cloud",
    "make package STAGE=prod ARCH=arm64",
]


def blocks(heading: str = "") -> list[str]:
    """The shell blocks under a heading, or all of them."""
    text = (ROOT / "README.md").read_text()
    if heading:
        text = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [block.strip() for block in re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S)]


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run it, with a port of its own; if it fails half-way, what it started is ended."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "AWS_DEFAULT_REGION") if name in os.environ}
    scratch = folder.with_name(f"{folder.name}-scratch")
    scratch.mkdir()
    command = ["bash", "-euo", "pipefail", "-c", script.replace("2222", str(free_port()))]
    environment["TMPDIR"] = str(scratch)
    try:
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100)
    finally:
        for left in scratch.glob("*/sshd.pid"):
            with suppress(ProcessLookupError):
                os.kill(int(left.read_text()), signal.SIGTERM)


def project(folder: Path, served: Served) -> Path:
    """The project's folder after that API was started from it."""
    for entry in ROOT.iterdir():
        if entry.name != ".local":
            (folder / entry.name).symlink_to(entry)
    (folder / ".local").symlink_to(served.local)
    return folder


def assert_logged_in(said: str) -> None:
    assert "logged in as" in said
    assert "Type: ssh-ed25519-cert-v01@openssh.com user certificate" in said


def test_the_main_job_works_on_the_deployed_package(deployed: Served, tmp_path: Path) -> None:
    done = run("\n".join(blocks("The main job: from a key to a login")), project(tmp_path, deployed))
    assert done.returncode == 0, done.stdout + done.stderr
    assert_logged_in(done.stdout)


def test_every_shell_line_of_the_readme_works(served: Served, tmp_path: Path) -> None:
    pasted = [block for block in blocks() if block not in SERVING]
    done = run("\n".join([*pasted, 'echo "The cloud: ${AWS_ENDPOINT_URL-none}"']), project(tmp_path, served))
    assert done.returncode == 0, done.stdout + done.stderr
    assert_logged_in(done.stdout)
    assert '"subject_common_name": "app.example.com"' in done.stdout
    assert '"metadata": "A demonstration"' in done.stdout
    assert "is online until Ctrl-C" in (served.local / "demo.log").read_text()
    assert '"error_code":"unauthenticated"' in done.stdout
    assert "True\n400 must be at least 100\n" in done.stdout
    assert "BotUser(id='bot_" in done.stdout
    assert done.stdout.endswith("\nThe cloud: none\n")  # what the shell starts next has a cloud of its own


def test_the_blocks_that_serve_are_still_in_the_readme() -> None:
    assert [block for block in blocks() if block in SERVING] == SERVING
