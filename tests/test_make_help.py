"""`make help`: every target that is for people, as it is to be read."""

import shutil
import subprocess
from pathlib import Path

from tests.conftest import ROOT
from tests.served.commands import run


def test_every_target_is_told_in_a_line() -> None:
    status, output, err = run({}, "make", "help")
    assert (status, err) == (0, "")
    targets = (ROOT / "Makefile").read_text().partition("\n.PHONY: ")[2].partition("\n\n")[0].replace("\\", "").split()
    assert sorted(line.split()[0] for line in output.splitlines()) == sorted(targets)
    assert "Make build/$STAGE: the Lambda package" in output


def test_a_folder_may_have_a_space_in_its_name(tmp_path: Path) -> None:
    project, elsewhere = tmp_path / "of mine" / "project", tmp_path / "else where"
    shutil.copytree(ROOT / "infra" / "local", project / "infra" / "local")
    for name in ("Makefile", "infra/__init__.py"):
        shutil.copy(ROOT / name, project / name)
    (elsewhere / ".local" / "cloud").mkdir(parents=True)
    for target in ("help", "reset"):
        command = ["make", "-f", str(project / "Makefile"), target]
        process = subprocess.run(command, cwd=elsewhere, capture_output=True, text=True)
        assert (process.returncode, process.stderr) == (0, "")
    assert list((elsewhere / ".local").iterdir()) == []
