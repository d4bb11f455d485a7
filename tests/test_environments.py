"""Environments are fetched with uv or pip; a dead registry is told in a sentence, a slow one is waited for."""

import hashlib
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.conftest import ROOT, free_port

pytestmark = pytest.mark.needs("the environment of make")
WHEEL = "tiny-1.0-py3-none-any.whl"
TOLD = (
    "The registry of Python's packages could not be reached for {} ({}): "
    "check that this machine is connected, then run make again."
)
SOON = 15  # seconds: 10 on a machine that does nothing else


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Return the smallest package that can be installed: one module."""
    about = "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n"
    wheel_file = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {"tiny.py": "SIZE = 1\n", "tiny-1.0.dist-info/METADATA": about, "tiny-1.0.dist-info/WHEEL": wheel_file}
    with zipfile.ZipFile(tmp_path / WHEEL, "w") as packed:
        for name, text in files.items():
            packed.writestr(name, text)
        packed.writestr("tiny-1.0.dist-info/RECORD", "".join(f"{name},,\n" for name in files))
    return tmp_path / WHEEL


@pytest.fixture
def project(tmp_path: Path, wheel: Path) -> Path:
    """Return a folder, with a space on its path, in which `make .venv/run` fetches that package alone.

    Neither uv nor pip knows it yet.
    """
    folder = tmp_path / "of mine" / "project"
    (folder / "infra").mkdir(parents=True)
    (folder / "requirements").mkdir()
    for name in ("Makefile", "infra/__init__.py", "infra/environments.py"):
        shutil.copy(ROOT / name, folder / name)
    pin = f"tiny==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"
    for name in ("run", "cloud"):
        (folder / f"requirements/{name}.txt").write_text(pin)
    shutil.copy(ROOT / "requirements/uv.txt", folder / "requirements")
    return folder


def make(project: Path, registry: str, *targets: str, uv: bool) -> tuple[int, str, list[str]]:
    """Run make with a registry, where uv is installed or not; its status and what was said on both channels."""
    programs = project / "programs"
    programs.mkdir()
    for program in ("sh", "grep", "sed"):
        (programs / program).symlink_to(str(shutil.which(program)))
    python = programs / "the python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o700)
    if uv:
        (programs / "uv").symlink_to(ROOT / ".venv/bin/uv")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_", "MAKE"))}
    process = subprocess.run(
        [str(shutil.which("make")), *targets, f"PYTHON={python}"],
        cwd=project,
        env={
            **environment,
            "HOME": str(project / "home"),
            "PATH": str(programs),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": f"{registry}/simple",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return process.returncode, process.stdout, process.stderr.splitlines()


@pytest.fixture
def silent() -> Iterator[str]:
    """Yield the address of a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def files_from(wheel: Path) -> Iterator[str]:
    """Yield the address of a registry that lists the package, after {files}, and sends it at once."""
    with registry(wheel, seconds=0) as address:
        yield address


@pytest.fixture
def slow(wheel: Path) -> Iterator[str]:
    """Yield the address of a registry that pauses for a second after each few hundred bytes, and two before them."""
    with registry(wheel, seconds=1) as address:
        yield address


@contextmanager
def registry(wheel: Path, *, seconds: float) -> Iterator[str]:
    """Yield the address of a registry that pauses for so many seconds while it sends."""

    class Registry(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.head(len(wheel.read_bytes()))

        def do_GET(self) -> None:
            content = wheel.read_bytes() if self.path.endswith(WHEEL) else self.listing()
            time.sleep(2 * seconds)
            self.head(len(content))
            for start in range(0, len(content), 400):
                self.wfile.write(content[start : start + 400])
                time.sleep(seconds)

        def head(self, size: int) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/octet-stream" if self.path.endswith(WHEEL) else "text/html")
            self.send_header("Content-Length", f"{size}")
            self.end_headers()

        def listing(self) -> bytes:
            elsewhere = self.path.partition("/elsewhere=")[2].partition("/")[0]
            files = f"http://127.0.0.1:{elsewhere}" if elsewhere else ""
            return f'<!doctype html><a href="{files}/{WHEEL}">{WHEEL}</a>'.encode()

        def log_request(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_slow_registry_is_waited_for(project: Path, slow: str) -> None:
    began = time.monotonic()
    status, output, err = make(project, slow, ".venv/run", uv=True)
    assert (status, output, err) == (0, "Fetching what the API needs, into .venv with uv …\n", [])
    assert (project / ".venv/run").exists()
    assert list(project.glob(".venv/lib/*/site-packages/tiny.py"))
    assert time.monotonic() - began > 4  # which would be a silence


def test_without_uv_pip_fetches_it_too(project: Path, files_from: str) -> None:
    status, output, err = make(project, files_from, ".venv/run", uv=False)  # which lists no uv
    assert (status, err) == (0, [])
    assert output.splitlines() == [
        "Fetching uv, which makes the environments …",
        "Fetching what the API needs, into .venv with pip …",
    ]
    assert list(project.glob(".venv/lib/*/site-packages/tiny.py"))


def test_an_environment_whose_making_was_broken_off_is_made_anew(project: Path, files_from: str) -> None:
    (project / ".venv/bin").mkdir(parents=True)
    (project / ".venv/bin/python").write_text("#!/bin/sh\nexit 1\n")
    (project / ".venv/bin/python").chmod(0o700)
    assert make(project, files_from, ".venv/run", uv=True)[0] == 0
    assert list(project.glob(".venv/lib/*/site-packages/tiny.py"))


BOTH = (".venv/run", "BESIDE=.venv-cloud/ready")
WHAT = {True: "what the API needs", False: "uv"}


@pytest.mark.parametrize("uv", [True, False])
def test_a_registry_that_refuses_is_told_once_for_two_environments(project: Path, uv: bool) -> None:
    began = time.monotonic()
    status, _, err = make(project, f"http://127.0.0.1:{free_port()}", *BOTH, uv=uv)
    assert (status, err[0]) == (2, TOLD.format(WHAT[uv], "connection refused"))
    assert err[1].startswith("make: *** ")
    assert (len(err), time.monotonic() - began < SOON) == (2, True)


@pytest.mark.parametrize("uv", [True, False])
def test_a_silent_registry_is_told_soon(project: Path, silent: str, uv: bool) -> None:
    began = time.monotonic()
    status, _, err = make(project, silent, *BOTH, uv=uv)
    assert (status, err[0]) == (2, TOLD.format(WHAT[uv], "it does not answer"))
    assert (len(err), time.monotonic() - began < SOON) == (2, True)


def test_files_that_never_come_are_told_too(project: Path, files_from: str, silent: str) -> None:
    began = time.monotonic()
    port = silent.rpartition(":")[2]
    status, _, err = make(project, f"{files_from}/elsewhere={port}", ".venv/run", uv=True)
    assert (status, err[0]) == (2, TOLD.format(WHAT[True], "it does not answer"))
    assert time.monotonic() - began < SOON


def test_what_is_not_the_pinned_package_is_not_installed(project: Path, files_from: str) -> None:
    shared = ("--without-pip", "--system-site-packages")  # neither uv nor pip has to make it, which takes long
    subprocess.run([sys.executable, "-m", "venv", *shared, str(project / ".venv")], check=True)
    (project / "requirements/run.txt").write_text(f"tiny==1.0 --hash=sha256:{'0' * 64}\n")
    status, _, err = make(project, files_from, ".venv/run", uv=True)
    assert (status, err[0]) == (2, "The installation of what the API needs failed.")
    assert "0" * 64 in "".join(err)
    assert not (project / ".venv/run").exists()


@pytest.mark.needs("npm")
@pytest.mark.parametrize("silence", [True, False])
def test_a_dead_registry_of_npm_is_told_too(tmp_path: Path, silent: str, silence: bool) -> None:
    folder = tmp_path / "bench"
    folder.mkdir()
    for file in (ROOT / "Makefile", *(ROOT / "bench").glob("package*.json")):
        shutil.copy(file, tmp_path / file.relative_to(ROOT))
    began = time.monotonic()
    process = subprocess.run(
        ["make", "-C", str(tmp_path), "--no-print-directory", "bench/node_modules/ready"],
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))},
            "npm_config_cache": str(tmp_path / "cache"),
            "npm_config_registry": silent if silence else f"http://127.0.0.1:{free_port()}",
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (process.returncode, process.stdout) == (2, "Fetching what the benchmarks need, with npm …\n")
    assert process.stderr.splitlines()[0] == (
        "The registry of npm's packages could not be reached for what the benchmarks need: "
        "check that this machine is connected, then run make again."
    )
    assert time.monotonic() - began < SOON
