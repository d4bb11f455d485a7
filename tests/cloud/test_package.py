"""The Lambda package that was deployed: whole, and compiled.

That it is the same bytes each time, and made for either machine, is tried where it is made (.github/workflows/ci.yml).
"""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from infra.deploy import fingerprint
from tests.conftest import ROOT, Served, free_port

VERSION = f"cpython-{sys.version_info[0]}{sys.version_info[1]}"
ARCHIVE = ROOT / "build" / "dev" / "deployment.zip"


@pytest.fixture(scope="module")
def unpacked(deployed_api: Served, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    with zipfile.ZipFile(ARCHIVE) as packed:
        packed.extractall(folder)
    return folder


@pytest.mark.usefixtures("unpacked")
def test_it_is_small() -> None:
    assert ARCHIVE.stat().st_size <= 13.2 * 1024 * 1024


def test_everything_in_it_is_compiled_and_never_compiled_again(unpacked: Path) -> None:
    for source in unpacked.rglob("*.py"):
        compiled = source.parent / "__pycache__" / f"{source.stem}.{VERSION}.pyc"
        assert compiled.read_bytes()[4:8] == b"\1\0\0\0", compiled  # PEP 552: by hash, unchecked


def test_it_holds_what_the_functions_need_and_no_tools(unpacked: Path) -> None:
    names = {entry.name for entry in unpacked.iterdir()}
    assert {"app.py", "chalicelib", "chalice", "cachetools", "cryptography", "gmpy2", "pydantic", "re2"} <= names
    tools = {"boto3", "botocore", "infra", "tests", "pip", "localstack_client", ".chalice", "requirements.txt"}
    of_the_edge = {"edge", "acme", "josepy", "requests", "dns", "asyncssh"}
    assert not {*tools, *of_the_edge, "click"} & names
    assert not {"operator", "__main__.py"} & {entry.name for entry in (unpacked / "chalicelib").iterdir()}
    assert {entry.name for entry in (unpacked / "chalice").glob("*.py")} == {"__init__.py", "app.py"}
    assert not {".pyi", ".h", ".pxd"} & {file.suffix for file in unpacked.rglob("*")}
    assert sum(file.stat().st_size for file in unpacked.rglob("*")) < 250 * 1024 * 1024  # Lambda's limit


def test_it_runs_with_nothing_beside_it_but_what_lambda_has(unpacked: Path, tmp_path: Path) -> None:
    for name in ("boto3", "botocore", "s3transfer", "jmespath", "dateutil", "six.py", "urllib3"):
        (installed,) = [Path(path, name) for path in sys.path if Path(path, name).exists()]
        (tmp_path / name).symlink_to(installed)
    script = """
import importlib, pkgutil, chalicelib
for found in pkgutil.walk_packages(chalicelib.__path__, "chalicelib."):
    importlib.import_module(found.name)
import app, pydantic, cryptography.x509, gmpy2, re2
print(pydantic.__file__)
"""
    environment = {**os.environ, "PYTHONPATH": f"{unpacked}:{tmp_path}"}
    command = [sys.executable, "-S", "-c", script]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert str(unpacked) in result.stdout


def test_it_is_made_again_only_if_something_changed(deployed_api: Served, tmp_path: Path) -> None:
    written_at = ARCHIVE.stat().st_mtime_ns
    command = [sys.executable, "-m", "infra.deploy.package", "dev"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout == f"{ARCHIVE}: {ARCHIVE.stat().st_size:,} bytes, unchanged\n"
    assert ARCHIVE.stat().st_mtime_ns == written_at
    inputs = {arch: fingerprint.compute("dev", arch) for arch in ("arm64", "x86_64")}
    assert inputs["arm64"] != inputs["x86_64"]
    for name in ("deployment.zip", "sam.json", "sbom.json", "translated.json"):
        (tmp_path / name).write_text(name)
    assert not fingerprint.is_current(tmp_path, inputs["arm64"])
    fingerprint.write(tmp_path, inputs["arm64"])
    assert fingerprint.is_current(tmp_path, inputs["arm64"])
    assert not fingerprint.is_current(tmp_path, inputs["x86_64"])
    (tmp_path / "sam.json").write_text("changed")
    assert not fingerprint.is_current(tmp_path, inputs["arm64"])


def test_a_dead_registry_is_told_in_a_sentence(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    result = subprocess.run(
        [sys.executable, "-m", "infra.deploy.package", "dev", "--out", str(tmp_path / "out")],
        cwd=ROOT,
        env={
            **environment,
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": f"http://127.0.0.1:{free_port()}",
            "PIP_NO_CACHE_DIR": "1",
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 1
    sentence = (
        "could not be fetched from the registry of Python's packages: check that this machine is connected, then run"
    )
    assert [line.partition(" ")[2] for line in result.stderr.splitlines()] == [f"{sentence} make again."]
