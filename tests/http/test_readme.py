"""Every shell line of the README, run in one shell from top to bottom as a reader would paste it."""

import os
import re
import subprocess
from pathlib import Path

from tests.conftest import ROOT, Served

# These serve until Ctrl-C; test_make_run.py runs them.
SERVING = ["make run", ". .local/cloud.env\n.venv/bin/chalice local --stage local --port 8001 --no-autoreload"]


def blocks() -> list[str]:
    return [block.strip() for block in re.findall(r"^```sh\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)]


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "AWS_DEFAULT_REGION")}
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_every_shell_line_of_the_readme_works(served: Served, tmp_path: Path) -> None:
    for entry in ROOT.iterdir():
        if entry.name != ".local":
            (tmp_path / entry.name).symlink_to(entry)
    (tmp_path / ".local").symlink_to(served.local)
    pasted = [block for block in blocks() if block not in SERVING]
    done = run("\n".join(pasted), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "logged in as" in done.stdout
    assert "Type: ssh-ed25519-cert-v01@openssh.com user certificate" in done.stdout
    assert '"subject_common_name": "app.example.com"' in done.stdout
    assert '"metadata": "A demonstration"' in done.stdout
    assert "is online until Ctrl-C" in (served.local / "demo.log").read_text()
    assert '"error_code":"unauthenticated"' in done.stdout


def test_the_blocks_that_serve_are_still_in_the_readme() -> None:
    assert [block for block in blocks() if block in SERVING] == SERVING
