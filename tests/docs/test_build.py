"""`make docs`: the page is the same each time, and needs no Node.js; without it all the rest is at work."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return the project's folder before anything was made of it."""
    for name in ("app.py", "docs", "infra", "tests", "Makefile", ".venv", "requirements"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "chalicelib", tmp_path / "chalicelib", ignore=shutil.ignore_patterns("docs.html"))
    return tmp_path


def run(project: Path, *command: str, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MAKEFLAGS": "", **settings}
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.needs("the page of the reference", "the environment of make")
def test_make_makes_the_same_page_each_time_without_node(project: Path) -> None:
    (project / "bin").mkdir()
    for program in ("sh", "grep", "sed"):
        (project / "bin" / program).symlink_to(str(shutil.which(program)))
    done = run(project, str(shutil.which("make")), "docs", PATH=str(project / "bin"))
    assert (done.returncode, done.stderr) == (0, "")
    assert (project / "chalicelib/documents/docs.html").read_bytes() == (
        ROOT / "chalicelib/documents/docs.html"
    ).read_bytes()


def test_a_server_without_the_page_says_so_and_serves_all_the_rest(project: Path) -> None:
    script = """
from tests.transports import Client, InProcess
nobody = Client(InProcess())
print(nobody.get("/docs").text)
print(nobody.get("/nope").status)
"""
    answers = run(project, sys.executable, "-c", script).stdout.splitlines()[1::2]
    assert '"error_code":"not_found","status_code":404' in answers[0]
    assert "'make docs' makes it." in answers[0]
    assert answers[1] == "404"


@pytest.mark.needs("the page of the reference")
def test_a_page_names_the_header_that_the_deployment_takes_the_version_from() -> None:
    script = """
from tests.transports import Client, InProcess
print(Client(InProcess()).get("/docs").text)
"""
    page = run(ROOT, sys.executable, "-c", script, VERSION_HEADERS="Vendor-Version").stdout
    assert '-H "Vendor-Version: 2"' in page
    assert "Service-Version" not in page
