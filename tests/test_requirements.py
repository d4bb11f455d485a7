"""What is installed from a registry is pinned with hashes, and newer versions of all of it are proposed."""

import subprocess

from samtranslator.yaml_helper import yaml_parse

from tests.conftest import ROOT
from tests.docs.repository import files


def test_every_file_of_pinned_requirements_is_renewed_from_what_is_asked_for() -> None:
    printed = subprocess.run(
        ["make", "--dry-run", "requirements"], cwd=ROOT, check=True, capture_output=True, text=True, timeout=30
    ).stdout
    renewed = set(printed.replace("\\\n", " ").partition("for name in ")[2].partition(";")[0].split())
    pinned = [*ROOT.glob("requirements*.txt"), *ROOT.glob("requirements/*.txt")]
    assert {str(file.relative_to(ROOT).with_suffix("")) for file in pinned} == renewed
    assert all(file.with_suffix(".in").exists() and "--hash=" in file.read_text() for file in pinned)


def test_newer_versions_are_proposed_of_whatever_is_pinned() -> None:
    proposed = yaml_parse((ROOT / ".github/dependabot.yml").read_text())["updates"]
    folders = {update["package-ecosystem"]: sorted(update["directories"]) for update in proposed}
    assert folders == {
        "github-actions": ["/", *of("action.yml")],
        "npm": of("package-lock.json"),
        "uv": ["/", "/requirements"],
    }


def of(name: str) -> list[str]:
    """Return the folders that have such a file."""
    return sorted(f"/{file.parent}" for file in files() if file.name == name)
