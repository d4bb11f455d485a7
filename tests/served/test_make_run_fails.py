"""What stands in the way of `make run` is told in one sentence, without a traceback."""

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from infra.local import cloud
from tests.conftest import ROOT, Served, free_port, processes_with
from tests.served.test_make_run import environment, settings


def run(chosen: dict[str, str], *command: str) -> tuple[int, str, str]:
    """The exit status and what was said on both channels."""
    done = subprocess.run(
        command or (sys.executable, "-m", "infra.local.run"),
        cwd=ROOT,
        env=environment(chosen),
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


@contextmanager
def taken() -> Iterator[str]:
    """A port on which another program listens."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield str(other.getsockname()[1])


@pytest.mark.parametrize("setting", ["PORT", "CLOUD_PORT"])
def test_a_taken_port_is_named_with_the_setting_that_chooses_another(tmp_path: Path, setting: str) -> None:
    with taken() as port:
        said = run({**settings(tmp_path / "local"), setting: port})
    sentence = f"Port {port} cannot be used (Address already in use): choose another with {setting}=….\n"
    assert said == (1, "", sentence)
    assert processes_with(f"LOCAL_DIR={tmp_path / 'local'}") == []


@pytest.mark.parametrize("name", ["state.json", "dynamodb.json"])  # the second was kept by the first edition
def test_a_broken_state_file_is_named_and_left_as_it_is(tmp_path: Path, name: str) -> None:
    file = tmp_path / "local" / "cloud" / name
    file.parent.mkdir(parents=True)
    file.write_text('{"tables": ')
    status, out, err = run(settings(tmp_path / "local"))
    assert (status, out) == (1, "")
    assert err == (
        f"The saved state in {file} cannot be read (Expecting value: line 1 column 12 (char 11)): "
        "mend it, or forget all of it with 'make reset'.\n"
    )
    assert file.read_text() == '{"tables": '


@pytest.mark.parametrize("setting", ["AWS_ENDPOINT_URL=http://127.0.0.1:{port}", "LOCALSTACK_HOST=127.0.0.1:{port}"])
def test_a_cloud_that_cannot_be_reached_is_named(tmp_path: Path, setting: str) -> None:
    port, own = free_port(), f"http://127.0.0.1:{free_port()}"
    name, _, value = setting.format(port=port).partition("=")
    sourced = {"AWS_ENDPOINT_URL": own, "EMBEDDED_CLOUD_URL": own}  # an earlier make run's, which name no other cloud
    said = run({**settings(tmp_path / "local"), **sourced, name: value})
    assert said == (1, "", f"The cloud at http://127.0.0.1:{port} cannot be used (EndpointConnectionError).\n")


def test_a_cloud_of_another_folder_is_named(tmp_path: Path, served: Served) -> None:
    url = served.cloud["AWS_ENDPOINT_URL"]
    said = run({**settings(tmp_path / "local"), **cloud.settings(url)})
    assert said == (1, "", f"The cloud at {url} cannot be used (UnrecognizedClientException).\n")


def test_a_machine_without_python_is_told_what_is_needed(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "requirements-run.txt").touch()
    (tmp_path / "no-programs").mkdir()
    make = str(shutil.which("make"))
    done = subprocess.run(
        [make, "run"], cwd=tmp_path, env={"PATH": str(tmp_path / "no-programs")}, capture_output=True, text=True
    )
    sentence = "Python 3.11 or newer, with venv, is needed: install it, or name it with PYTHON=…"
    assert (done.returncode, done.stdout, done.stderr.splitlines()[0]) == (2, "", sentence)


DIFFERENT = ".venv and .venv-cloud are not of one Python, the one that PYTHON names: make cloud-stop, then remove both"


@pytest.mark.parametrize(
    ("python", "made", "sentence"),
    [
        ("new", {".venv": "3.11", ".venv-cloud": "3.11"}, DIFFERENT),
        (
            "./missing",
            {".venv": "3.12"},
            "PYTHON=./missing cannot be run: install it, or name another Python with PYTHON=…",
        ),
    ],
    ids=["both", "missing"],
)
def test_virtual_environments_of_another_python_are_named(
    tmp_path: Path, python: str, made: dict[str, str], sentence: str
) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    for folder, version in {**made, "new": "3.12"}.items():
        program = tmp_path / folder / "bin" / "python"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho {version}\n")
        program.chmod(0o700)
    chosen = {"PYTHON": python.replace("new", "new/bin/python")} if python else {}
    done = subprocess.run(
        ["make", "-n", "cloud"], cwd=tmp_path, env=environment(chosen), capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 2
    assert done.stderr.endswith(f"*** {sentence}.  Stop.\n")
    for target in ("help", "reset", "cloud-stop"):  # which need neither
        command = ["make", "-n", target]
        assert subprocess.run(command, cwd=tmp_path, env=environment(chosen), capture_output=True).returncode == 0


def test_an_environment_whose_making_was_broken_off_is_made_anew(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "requirements-run.txt").touch()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / ".venv"], check=True)
    status, told, err = run({}, "make", "-C", str(tmp_path), ".venv/run")
    assert (status, "Installing what the API needs …\n" in told) == (0, True), err
    assert (tmp_path / ".venv" / "run").exists()


def test_a_machine_without_a_network_is_told_that_it_needs_one(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "requirements-run.txt").touch()
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(
        '#!/bin/sh\ncase "$*" in -c*) echo 3.99;; "-m pip --version") ;; '
        '*) echo "ERROR: No matching distribution" >&2; exit 1;; esac\n'
    )
    python.chmod(0o700)
    done = subprocess.run(
        ["make", "run"], cwd=tmp_path, env=environment({}), capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stdout) == (2, "Installing what the API needs …\n")
    assert done.stderr.splitlines()[1] == (
        "These packages come from the network, and could not be installed. Is this machine connected? "
        "Then run make again."
    )
