"""What is installed from Python's registry is pinned with hashes, and `make requirements` renews all of it."""

import subprocess

from tests.conftest import ROOT


def test_every_file_of_pinned_requirements_is_renewed_from_what_is_asked_for() -> None:
    printed = subprocess.run(
        ["make", "--dry-run", "requirements"], cwd=ROOT, check=True, capture_output=True, text=True, timeout=30
    ).stdout
    renewed = set(printed.replace("\\\n", " ").partition("for name in ")[2].partition(";")[0].split())
    pinned = [*ROOT.glob("requirements*.txt"), *ROOT.glob("requirements/*.txt")]
    assert {str(file.relative_to(ROOT).with_suffix("")) for file in pinned} == renewed
    assert all(file.with_suffix(".in").exists() and "--hash=" in file.read_text() for file in pinned)
