"""`make docs`: the page is the same each time, and made of nothing but what is pinned."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from threading import Thread

import pytest

from tests.conftest import ROOT, free_port

VIEWER = ROOT / "build" / "viewer.tgz"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project's folder before anything was made of it."""
    (tmp_path / "infra").symlink_to(ROOT / "infra")
    shutil.copytree(ROOT / "chalicelib", tmp_path / "chalicelib", ignore=shutil.ignore_patterns("docs.html"))
    return tmp_path


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """A registry of packages whose files are the test's own."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "registry"))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def publish(project: Path, archive: bytes) -> None:
    file = project / "registry" / "redoc" / "-" / "redoc-2.5.4.tgz"
    file.parent.mkdir(parents=True)
    file.write_bytes(archive)


def build(project: Path, registry: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NPM_CONFIG_REGISTRY": registry}
    command = [sys.executable, "-m", "infra.build.docs"]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=30)


def test_the_same_page_is_made_each_time_and_fetched_once(project: Path, registry: str) -> None:
    publish(project, VIEWER.read_bytes())
    made = project / "chalicelib" / "docs.html"
    for source in (registry, f"http://127.0.0.1:{free_port()}"):  # the second is not there
        done = build(project, source)
        assert (done.returncode, done.stderr) == (0, "")
        assert made.read_bytes() == (ROOT / "chalicelib" / "docs.html").read_bytes()
        made.unlink()


def test_a_viewer_of_another_digest_is_refused(project: Path, registry: str) -> None:
    publish(project, VIEWER.read_bytes() + b"\0")
    done = build(project, registry)
    told = f"redoc 2.5.4 as {registry} has it is not what infra/build/viewer.json names: its digest differs.\n"
    assert (done.returncode, done.stderr) == (1, told)
    assert not (project / "build").exists()


def test_a_registry_that_is_out_of_reach_is_told_in_one_sentence(project: Path) -> None:
    registry = f"http://127.0.0.1:{free_port()}"
    done = build(project, registry)
    told = f"{registry}/redoc/-/redoc-2.5.4.tgz cannot be fetched (<urlopen error [Errno 111] Connection refused>): "
    assert (done.returncode, done.stderr) == (1, f"{told}the reference's viewer comes from there.\n")
    assert not (project / "chalicelib" / "docs.html").exists()


def test_a_server_without_the_page_serves_all_the_rest(project: Path) -> None:
    (project / "app.py").symlink_to(ROOT / "app.py")
    (project / "tests").symlink_to(ROOT / "tests")
    script = """
from tests.doors import Client, InProcess
nobody = Client(InProcess())
print(nobody.get("/docs").text)
print(nobody.get("/nope").status)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=project, capture_output=True, text=True, check=True, timeout=30
    )
    refused, other = done.stdout.splitlines()[1::2]
    assert '"error_code":"not_found","status_code":404' in refused
    assert "'make docs' makes it." in refused
    assert other == "404"
