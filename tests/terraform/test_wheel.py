"""The wheel of the provider: small, the same bytes twice, few packages, and the service's version."""

import re
import stat
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import tunneledge_provider
from infra.build.terraform import __main__ as build
from infra.build.terraform import wheel
from tests.conftest import ROOT
from tunneledge_provider import __main__ as program
from tunneledge_provider import install

MAX_PACKAGES = 9


@pytest.mark.needs("the environment of the Terraform provider")
def test_two_builds_have_the_same_bytes_and_are_small(tmp_path: Path) -> None:
    first, second = (wheel.build_wheel(tmp_path / name) for name in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_size <= build.MAX_SIZE


@pytest.mark.needs("the environment of the Terraform provider")
def test_few_packages_are_installed() -> None:
    (packages,) = (ROOT / ".venv-terraform").glob("lib/python3*/site-packages")
    distributions = metadata.distributions(path=[str(packages)])
    required = {distribution.metadata["Name"].lower(): distribution.requires or [] for distribution in distributions}
    text = (ROOT / "terraform" / "pyproject.toml").read_text().partition("\ndependencies = [")[2].partition("]")[0]
    package_names, queue = set[str](), [package.lower() for package in re.findall(r'"([\w-]+)', text)]
    while queue:
        name = queue.pop()
        if name in required and name not in package_names:
            package_names.add(name)
            queue += [
                re.split(r"[^\w-]", requirement)[0].lower()
                for requirement in required[name]
                if "extra" not in requirement
            ]
    assert {"grpcio", "tf", "urllib3"} < package_names
    assert len(package_names) <= MAX_PACKAGES


def test_the_version_is_that_of_the_service() -> None:
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert newest
    assert tunneledge_provider.__version__ == newest[1]


def test_the_program_is_written_where_terraform_looks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program.main(["install", str(tmp_path)])
    (executable,) = tmp_path.glob("terraform.local/tunnel-edge/tunneledge/*/*_*/terraform-provider-tunneledge_v*")
    assert capsys.readouterr().out == f"{executable}\n"
    assert stat.S_IMODE(executable.stat().st_mode) == 0o755
    assert Path.home() / ".terraform.d" / "plugins" == install.FOLDER
    environment = {"PYTHONPATH": str(ROOT / "terraform"), "PATH": "/usr/bin:/bin"}
    process = subprocess.run([str(executable), "version"], env=environment, capture_output=True, text=True, check=True)
    assert process.stdout == f"{tunneledge_provider.__version__}\n"
    assert sys.executable in executable.read_text()


@pytest.mark.parametrize("arguments", [[], ["help"], ["install", "a", "b"]])
def test_wrong_usage_says_what_is_right(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        program.main(arguments)
    assert error.value.code == 2
    assert "terraform-provider-tunneledge install [FOLDER]" in capsys.readouterr().err
