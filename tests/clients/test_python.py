"""The Python client: of everything that is in the document, typed, and it works."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients import everything
from tests.clients.driven import start_client
from tests.conftest import ROOT, Served
from tests.docs.page import samples
from tests.docs.reader import Reader, pick_samples
from tests.openapi.test_document import OPERATIONS

pytestmark = pytest.mark.needs("the environment of make")
DRIVER = Path(__file__).with_name("drivers") / "driver.py"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the client; `make client-python` fails where the generator warns of anything."""
    folder = tmp_path_factory.mktemp("python")
    subprocess.run(["make", "client-python", f"CLIENT={folder}"], cwd=ROOT, check=True, timeout=100)
    return folder


def test_it_has_every_operation_of_the_document(client: Path) -> None:
    files = {file.stem for file in client.glob("tunnel_edge_client/api/*/*.py")} - {"__init__"}
    assert files == {operation["operationId"] for *_, operation in OPERATIONS}


def test_its_types_hold(client: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        f"--cache-dir={tmp_path}",
        "tunnel_edge_client",
    ]
    process = subprocess.run(command, cwd=client, capture_output=True, text=True, timeout=100)
    assert process.returncode == 0, process.stdout


@pytest.fixture(scope="module")
def installed(client: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder into which the client was installed."""
    folder = tmp_path_factory.mktemp("installed")
    (wheel,) = (client / "dist").iterdir()
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        f"--target={folder}",
        str(wheel),
    ]
    subprocess.run(install, check=True, timeout=100)
    return folder


def test_it_can_be_installed_and_does_everything(installed: Path, served: Served) -> None:
    newcomer = served.newcomer()
    with start_client(newcomer, [sys.executable, DRIVER], env={**os.environ, "PYTHONPATH": str(installed)}) as driver:
        everything.check(driver, newcomer.client())


@pytest.mark.needs("the page of the reference")
def test_samples_of_the_reference_work(installed: Path, served: Served, tmp_path: Path) -> None:
    reader = Reader.new(served)
    for name, sample in pick_samples(dict(samples("Python"))).items():
        output = reader.run([sys.executable, "-c", reader.insert_ids(sample)], tmp_path, PYTHONPATH=str(installed))
        assert "error_code" not in output, name
