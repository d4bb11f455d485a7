"""The image of the edge: its linter's opinion, and that it contains all that the parts import.

No container engine is needed: the files are copied as the Containerfile says.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

FILE = ROOT / "infra" / "deploy" / "Containerfile"
PARTS = (
    "edge.control.control",
    "edge.ssh.gateway",
    "edge.sign_in.authorization",
    "edge.issuer.issuer",
    "edge.__main__",
)


def test_the_linter_finds_nothing() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    result = subprocess.run([linter, "--failure-threshold", "style", FILE], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, "")


def test_the_image_runs_as_a_user_without_rights() -> None:
    text = FILE.read_text()
    assert re.findall(r"^USER (.*)$", text, re.M) == ["10001:10001"]
    assert text.rindex("\nUSER ") > text.rindex("\nCOPY ")


@pytest.mark.needs("the live edge")
def test_its_files_suffice_for_every_part(tmp_path: Path) -> None:
    final = FILE.read_text().rpartition("\nFROM ")[2]
    for source, target in re.findall(r"^COPY (?!--from)(\S+) (\S+)$", final, re.M):
        (shutil.copytree if (ROOT / source).is_dir() else shutil.copy)(ROOT / source, tmp_path / target)
    python = ROOT / ".venv-edge" / "bin" / "python"
    result = subprocess.run(
        [python, "-c", f"import {', '.join(PARTS)}"], cwd=tmp_path, env={}, capture_output=True, text=True
    )
    assert (result.returncode, result.stderr) == (0, "")
    result_of_nothing = subprocess.run(
        [python, "-m", "edge", "nothing"], cwd=tmp_path, env={}, capture_output=True, text=True
    )
    assert result_of_nothing.returncode == 1
    assert "Traceback" not in result_of_nothing.stderr


def test_nothing_else_is_sent_to_the_builder() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    included = {line[1:] for line in lines if line.startswith("!")}
    assert included == set(re.findall(r"^COPY (?!--from)(\S+) ", FILE.read_text(), re.M))
