"""The Go client: it compiles, and works."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.clients import everything
from tests.clients.driven import start_client
from tests.conftest import ROOT, Served
from tests.docs.page import samples
from tests.docs.reader import Reader, pick_samples

pytestmark = pytest.mark.needs("go", "java", "the generator of the Go client")
DRIVER = Path(__file__).with_name("drivers") / "driver.go"
MODULE = """module driver

go 1.19

require tunneledge v0.0.0

replace tunneledge => {client}
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the client; `make client-go` fails where the generator warns of anything."""
    folder = tmp_path_factory.mktemp("go")
    subprocess.run(["make", "client-go", f"CLIENT={folder}"], cwd=ROOT, check=True, timeout=100)
    return folder


def build_program(client: Path, folder: Path, program: str) -> Path:
    """Return a program that uses the client, as any that has it beside itself; nothing comes from the network."""
    (folder / "go.mod").write_text(MODULE.format(client=client))
    (folder / "main.go").write_text(program)
    environment = {**os.environ, "GOPROXY": "off", "GOFLAGS": "-mod=mod"}
    subprocess.run(["go", "vet", "."], cwd=folder, env=environment, check=True, timeout=120)
    subprocess.run(["go", "build", "-o", "driver", "."], cwd=folder, env=environment, check=True, timeout=120)
    return folder / "driver"


@pytest.fixture(scope="module")
def driver(client: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_program(client, tmp_path_factory.mktemp("driver"), DRIVER.read_text())


@pytest.mark.needs("the page of the reference")
@pytest.mark.timeout(600)  # each is compiled
def test_samples_of_the_reference_work(client: Path, served: Served, tmp_path: Path) -> None:
    reader = Reader.new(served)
    for sample in pick_samples(dict(samples("Go"))).values():
        reader.run([build_program(client, tmp_path, reader.insert_ids(sample))], tmp_path)  # a refusal is a panic


def test_it_can_be_used_and_does_everything(driver: Path, served: Served) -> None:
    newcomer = served.newcomer()
    with start_client(newcomer, [driver]) as of_go:
        everything.check(of_go, newcomer.client())
