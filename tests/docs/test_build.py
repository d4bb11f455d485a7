"""`make docs` and `make openapi`: the same products each time, without Node.js; a server works without them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.refusals import NO_ROUTE

PRODUCTS = ("chalicelib/documents/docs.html", "chalicelib/documents/openapi.json")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return the project's folder before anything was made of it."""
    for name in ("app.py", "docs", "infra", "tests", "Makefile", ".venv", "requirements"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(
        ROOT / "chalicelib", tmp_path / "chalicelib", ignore=shutil.ignore_patterns("docs.html", "openapi.json*")
    )
    return tmp_path


def run(project: Path, *command: str, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MAKEFLAGS": "", **settings}
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.needs("the page of the reference", "the environment of make")
def test_make_makes_the_same_document_and_page_each_time_without_node(project: Path) -> None:
    (project / "bin").mkdir()
    for program in ("sh", "grep", "sed"):
        (project / "bin" / program).symlink_to(str(shutil.which(program)))
    process = run(project, str(shutil.which("make")), "docs", PATH=str(project / "bin"))
    assert (process.returncode, process.stderr) == (0, "")
    for product in PRODUCTS:
        assert (project / product).read_bytes() == (ROOT / product).read_bytes()


def test_a_server_without_document_and_page_says_so_and_serves_all_the_rest(project: Path) -> None:
    script = """
from tests.transports import Client, InProcess
from tests.conformity import of_another_app
nobody = Client(InProcess(), check=of_another_app)
for path in ("/docs", "/openapi.json", "/nope"):
    answer = nobody.get(path).json
    print(answer["status_code"], answer["error_code"], answer["msg"])
"""
    answers = [line for line in run(project, sys.executable, "-c", script).stdout.splitlines() if line[:3] == "404"]
    assert answers == [
        "404 not_found This server was built without its reference: run 'make docs'.",
        "404 not_found This server was built without its OpenAPI document: run 'make openapi'.",
        f"404 no_such_route {NO_ROUTE}",
    ]


def test_the_list_of_routes_says_that_the_document_is_missing(project: Path) -> None:
    process = run(project, sys.executable, "-m", "chalicelib", "routes", "--json")
    message = "This server was built without its OpenAPI document: run 'make openapi'.\n"
    assert (process.returncode, process.stdout, process.stderr) == (1, "", message)


@pytest.mark.needs("the page of the reference")
def test_a_page_names_the_header_that_the_deployment_takes_the_version_from() -> None:
    script = """
from tests.transports import Client, InProcess
print(Client(InProcess()).get("/docs").text)
"""
    page = run(ROOT, sys.executable, "-c", script, VERSION_HEADERS="Vendor-Version").stdout
    assert '-H "Vendor-Version: 2"' in page
    assert "Service-Version" not in page
