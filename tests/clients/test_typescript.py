"""The TypeScript client: its types take every example of the document, and it works."""

import json
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients import everything
from tests.clients.driven import start_client
from tests.conftest import ROOT, Served
from tests.docs.page import samples
from tests.docs.reader import Reader, pick_samples
from tests.openapi.test_document import OPERATIONS, contents

pytestmark = pytest.mark.needs("npm", "the compiler of the TypeScript client")
DRIVER = Path(__file__).with_name("drivers") / "driver.ts"
COMPILER = ROOT / "infra/build/clients/typescript/node_modules"
OPTIONS = ["--strict", "--target", "es2022", "--module", "nodenext", "--types", "node"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project that has installed the client."""
    client, folder = tmp_path_factory.mktemp("typescript"), tmp_path_factory.mktemp("project")
    subprocess.run(["make", "client-typescript", f"CLIENT={client}"], cwd=ROOT, check=True, timeout=100)
    (folder / "package.json").write_text('{"type": "module", "private": true}')
    command = [
        "npm",
        "install",
        "--silent",
        "--no-audit",
        "--no-fund",
        "--install-links",
        "--omit=dev",
        str(client),
        "@types/node@20",
    ]
    subprocess.run(command, cwd=folder, check=True, timeout=100)
    return folder


def compile_all(project: Path, names: Iterable[str]) -> None:
    """Make programs of the project, once their types hold."""
    command = [str(COMPILER / ".bin" / "tsc"), *OPTIONS, *(f"{name}.ts" for name in names)]
    process = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=100)
    assert process.returncode == 0, process.stdout


def examples() -> Iterator[str]:
    """Return every example of a request and of a response as a constant of its type."""
    yield 'import type { components } from "tunnel-edge-client";'
    texts: list[Any] = [
        content for *_, operation in OPERATIONS for content in contents(operation) if "example" in content
    ]
    for number, content in enumerate(texts):
        schema = content["schema"]["$ref"].rpartition("/")[2]
        yield f'export const example{number}: components["schemas"]["{schema}"] = {json.dumps(content["example"])};'


def test_its_types_take_every_example_of_the_document(project: Path) -> None:
    (project / "examples.ts").write_text("\n".join(examples()))
    compile_all(project, ["examples"])


def test_it_can_be_installed_and_does_everything(project: Path, served: Served) -> None:
    shutil.copy(DRIVER, project / "driver.ts")
    newcomer = served.newcomer()
    compile_all(project, ["driver"])
    with start_client(newcomer, ["node", "driver.js"], cwd=project) as driver:
        everything.check(driver, newcomer.client())


@pytest.mark.needs("the page of the reference")
def test_the_types_of_every_sample_of_the_reference_hold_and_some_are_run(project: Path, served: Served) -> None:
    reader, of_typescript = Reader.new(served), dict(samples("TypeScript"))
    for name, sample in of_typescript.items():
        (project / f"{name}.ts").write_text(sample)
    compile_all(project, of_typescript)
    for name in pick_samples(of_typescript):
        compiled = project / f"{name}.js"
        compiled.write_text(reader.insert_ids(compiled.read_text()))
        assert "error_code" not in reader.run(["node", compiled], project), name
