"""What a run of the tests says on a machine that lacks something."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import machine, needs
from tests.conftest import ROOT

TESTS = """
import pytest
from tests.conftest import *
from tests.needs import need

@pytest.mark.needs("openssl", "jq")
def test_marked():
    raise AssertionError("run")

@pytest.fixture(scope="session")
def server():
    need("openssl")

def test_with_a_fixture(server):
    raise AssertionError("run")

def test_that_needs_nothing():
    pass
"""


def test_what_is_lacking_is_said_first_and_last_and_only_what_needs_it_is_not_run(tmp_path: Path) -> None:
    """In a project with tests of its own, on a machine that has no program at all; its makes are done."""
    (tmp_path / "tests").mkdir()
    for entry in (*ROOT.iterdir(), *(ROOT / "tests").iterdir()):
        if not entry.name.startswith((".git", ".local", "tests", "build", "test_", "__pycache__")):
            (tmp_path / entry.relative_to(ROOT)).symlink_to(entry)
    (tmp_path / "tests" / "test_own.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/test_own.py"]
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTEST_ADDOPTS")}
    environment["PATH"] = str(tmp_path / "nowhere")
    process = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    lines = process.stdout.splitlines()
    assert process.returncode == 0, lines
    assert lines[0].startswith(
        "This machine lacks bash, chromium, curl, dropbear, fail2ban, faketime, fish, go, java, jq, libssh, nftables"
    )
    assert (
        "apt-get install -y --no-install-recommends bash chromium chromium-driver curl dropbear-bin fail2ban faketime"
        in lines[0]
    )
    assert "1 passed, 2 not run: jq, openssl" in lines


def test_for_ci_a_lack_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setitem(machine.NEEDS, "a program", machine.Need((("nowhere",),), ("a-package",)))
    with pytest.raises(pytest.fail.Exception, match=r"^needs a program: .*apt-get install .* a-package$"):
        needs.need("a program")


def test_for_ci_the_lack_of_what_no_registry_has_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    need = machine.Need((("nowhere",),), elsewhere="its vendor has it")
    monkeypatch.setattr(machine, "NEEDS", {"a program": need})
    with pytest.raises(pytest.skip.Exception, match=r"^needs a program$"):
        needs.need("a program")
    assert needs.told_first() == "This machine lacks a program: a program: its vendor has it"
