"""The wheel: small, the same bytes twice, few packages, and the service's version."""

import re
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import tunnel_edge
from infra.build import cli
from tests.cli.conftest import User
from tests.conftest import ROOT
from tunnel_edge import app

MAX_PACKAGES = 12
PACKAGES = [str(folder) for folder in (ROOT / ".venv-cli/lib").glob("python3*/site-packages")]


@pytest.mark.needs("the environment of the command line")
def test_two_builds_have_the_same_bytes_and_are_small(tmp_path: Path) -> None:
    first, second = (cli.build_wheel(tmp_path / name) for name in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_size <= cli.MAX_SIZE
    modes = {entry.external_attr >> 16 & 0o777 for entry in zipfile.ZipFile(first).infolist()}
    assert modes == {0o644}


@pytest.mark.needs("the environment of the command line")
def test_few_packages_are_installed() -> None:
    assert len(closure("tunnel-edge-cli", read_requirements())) <= MAX_PACKAGES


def test_the_version_is_that_of_the_service() -> None:
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert newest
    assert tunnel_edge.__version__ == newest[1]


def test_the_program_runs_as_command_and_as_module(user: User) -> None:
    assert user.run("version").stdout == f"{tunnel_edge.__version__}\n"
    assert user.run("--help").returncode == 0


def read_requirements() -> list[str]:
    """Return the requirements of the wheel, without its extras."""
    text = (ROOT / "cli" / "pyproject.toml").read_text().partition("\ndependencies = [")[2].partition("]")[0]
    return re.findall(r'"([^"]+)"', text)


def closure(name: str, requirements: list[str]) -> set[str]:
    """Return the packages that an installation consists of."""
    names = {name}
    for requirement in map(Requirement, requirements):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            (installed,) = metadata.distributions(name=requirement.name, path=PACKAGES)
            names |= closure(requirement.name, installed.requires or [])
    return names


def test_the_list_of_commands_is_that_of_the_program(user: User) -> None:
    assert user.run("--help").stdout == app.help_page()
    for name in ("login", "ssh-certificate-authorities", "events"):
        assert f"  {name} " in app.help_page()
