"""The Lambda package: whole, compiled, for the machine it is meant for, and the same bytes from the same sources."""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT, Served

VERSION = f"cpython-{sys.version_info[0]}{sys.version_info[1]}"
OTHER = "arm64" if platform.machine() == "x86_64" else "x86_64"


def make(out: Path, *options: str, folder: Path = ROOT, **settings: str) -> subprocess.CompletedProcess[str]:
    """What `make package` runs, with a place of its own."""
    command = [sys.executable, "-m", "infra.deploy.package", "dev", "--out", str(out), *options]
    environment = {**os.environ, **settings}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100)


def project(folder: Path, *, without: str) -> Path:
    """The project's folder, in which something is another's to make."""
    for entry in ROOT.iterdir():
        if not entry.name.startswith(".git") and entry.name not in (without, "build"):
            (folder / entry.name).symlink_to(entry)
    return folder


def digests(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


def libraries(archive: Path) -> set[str]:
    """The machines that the compiled libraries in a package say they are for."""
    with zipfile.ZipFile(archive) as packed:
        compiled = [name for name in packed.namelist() if name.endswith(".so")]
        return {packed.read(name)[18:20].hex() for name in compiled}  # e_machine of the ELF header


@pytest.fixture(scope="module")
def built(deployed: Served) -> Path:
    """What was deployed."""
    return ROOT / "build" / "dev"


@pytest.fixture(scope="module")
def unpacked(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    with zipfile.ZipFile(built / "deployment.zip") as packed:
        packed.extractall(folder)
    return folder


def test_two_runs_make_the_same_bytes_whatever_is_set_for_python(built: Path, tmp_path: Path) -> None:
    pythons = {"PYTHONPYCACHEPREFIX": str(tmp_path / "pyc"), "PYTHONOPTIMIZE": "1", "PYTHONNODEBUGRANGES": "1"}
    made = make(tmp_path / "again", **pythons)
    assert made.returncode == 0, made.stderr
    assert digests(tmp_path / "again") == digests(built)
    assert "  cryptography\n" in made.stdout
    assert f"{(built / 'deployment.zip').stat().st_size:,}" in made.stdout


def test_it_is_made_for_the_other_machine_too(built: Path, tmp_path: Path) -> None:
    made = make(tmp_path / "other", "--arch", OTHER)
    assert made.returncode == 0, made.stderr
    machines = {"x86_64": {"3e00"}, "arm64": {"b700"}}
    assert libraries(tmp_path / "other" / "deployment.zip") == machines[OTHER]
    assert libraries(built / "deployment.zip") == machines[({*machines} - {OTHER}).pop()]
    assert f'"{OTHER}"' in (tmp_path / "other" / "sam.json").read_text()


def test_everything_in_it_is_compiled_and_never_compiled_again(unpacked: Path) -> None:
    for source in unpacked.rglob("*.py"):
        compiled = source.parent / "__pycache__" / f"{source.stem}.{VERSION}.pyc"
        assert compiled.read_bytes()[4:8] == b"\1\0\0\0", compiled  # PEP 552: by hash, unchecked


def test_it_holds_what_the_functions_need_and_no_tools(unpacked: Path) -> None:
    names = {entry.name for entry in unpacked.iterdir()}
    assert {"app.py", "chalicelib", "chalice", "cachetools", "cryptography", "pydantic", "re2"} <= names
    tools = {"boto3", "botocore", "infra", "tests", "pip", "localstack_client", ".chalice", "requirements.txt"}
    assert not tools & names
    assert {entry.name for entry in (unpacked / "chalice").glob("*.py")} == {"__init__.py", "app.py"}
    assert sum(file.stat().st_size for file in unpacked.rglob("*")) < 250 * 1024 * 1024  # Lambda's limit


def test_it_runs_with_nothing_beside_it_but_what_lambda_has(unpacked: Path, tmp_path: Path) -> None:
    for name in ("boto3", "botocore", "s3transfer", "jmespath", "dateutil", "six.py", "urllib3"):
        (installed,) = [Path(path, name) for path in sys.path if Path(path, name).exists()]
        (tmp_path / name).symlink_to(installed)
    script = """
import importlib, pkgutil, chalicelib
for found in pkgutil.walk_packages(chalicelib.__path__, "chalicelib."):
    importlib.import_module(found.name)
import app, pydantic, cryptography.x509, re2
print(pydantic.__file__)
"""
    environment = {**os.environ, "PYTHONPATH": f"{unpacked}:{tmp_path}"}
    command = [sys.executable, "-S", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert str(unpacked) in done.stdout


def test_a_dependency_that_is_not_to_be_had_ends_it(tmp_path: Path) -> None:
    folder = project(tmp_path, without="requirements.txt")
    (folder / "requirements.txt").write_text("tunnel-edge-does-not-exist==1.0\n")
    done = make(tmp_path / "out", folder=folder)
    assert done.returncode == 1
    assert "Chalice could not package the app" in done.stderr
    assert not (tmp_path / "out" / "sam.json").exists()


def test_a_module_that_cannot_be_compiled_ends_it(tmp_path: Path) -> None:
    folder = project(tmp_path, without="requirements.txt")
    (folder / "requirements.txt").touch()
    (folder / "chalicelib").unlink()
    shutil.copytree(ROOT / "chalicelib", folder / "chalicelib", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "chalicelib" / "broken.py").write_text("def\n")
    done = make(tmp_path / "out", folder=folder)
    assert (done.returncode, done.stderr) == (1, "These modules could not be compiled: chalicelib/broken.py.\n")
