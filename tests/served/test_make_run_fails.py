"""What stands in the way of `make run` is told in one sentence, without a traceback."""

import json
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from infra.local import cloud
from tests.conftest import ROOT, Served, free_port
from tests.served import recorded
from tests.served.commands import run, settings


def test_a_taken_port_is_named_with_the_setting_that_chooses_another(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        outcome = run({**settings(tmp_path / "local"), "PORT": port})
    assert outcome == (1, "", f"Port {port} cannot be used (Address already in use): choose another with PORT=….\n")


def as_of_1_x(read: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in read.items() if name not in ("revision", "schema")}


def test_a_state_of_1_x_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "local" / "cloud"
    recorded.unpack("44e6111", tmp_path / "local")
    state = folder / "state.json"
    before = json.loads(state.read_text(), object_hook=as_of_1_x)["services"]
    state.write_text(json.dumps({"journal": 0, "services": before}))
    status, out, err = run(settings(tmp_path / "local"))
    assert (status, out) == (1, "")
    assert err.startswith(
        "The table tunnel-edge has records of 1.x, which this version cannot read: upgrade it to 2.0.0"
    )
    assert json.loads(state.read_text())["services"]["dynamodb"] == before["dynamodb"]
    state.rename(folder / "dynamodb.json")  # 1.x had a file for each service
    assert run(settings(tmp_path / "local")) == (
        1,
        "",
        f"The state in {folder} was written by version 1.x: upgrade it to 2.0.0 first ('Upgrading' in "
        "infra/README.md), or"
        " delete it with 'make reset'.\n",
    )
    assert [file.name for file in folder.glob("*.json")] == ["dynamodb.json"]


def test_a_broken_state_file_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "local" / "cloud" / "state.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"tables": ')
    status, out, err = run(settings(tmp_path / "local"))
    assert (status, out) == (1, "")
    assert err == (
        f"The saved state of the emulated cloud in {file} cannot be read (Expecting value: line 1 column 12 (char "
        "11)): "
        "repair it, or delete all state with 'make reset'.\n"
    )
    assert file.read_text() == '{"tables": '


def test_a_cloud_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    port, cloud_url = free_port(), f"http://127.0.0.1:{free_port()}"
    sourced = {
        "AWS_ENDPOINT_URL": cloud_url,
        "EMBEDDED_CLOUD_URL": cloud_url,
    }  # an earlier make run's, which name no other cloud
    outcome = run({**settings(tmp_path / "local"), **sourced, "LOCALSTACK_HOST": f"127.0.0.1:{port}"})
    assert outcome == (
        1,
        "",
        f"The emulated cloud at http://127.0.0.1:{port} cannot be used (EndpointConnectionError):"
        " check that it runs, and check the credentials.\n",
    )


def test_a_cloud_of_another_folder_is_named(tmp_path: Path, served: Served) -> None:
    url = served.cloud["AWS_ENDPOINT_URL"]
    outcome = run({**settings(tmp_path / "local"), **cloud.settings(url)})
    assert outcome == (
        1,
        "",
        f"The emulated cloud at {url} cannot be used (UnrecognizedClientException):"
        " check that it runs, and check the credentials.\n",
    )


def test_an_edge_whose_store_has_no_key_names_it(tmp_path: Path, served: Served) -> None:
    chosen = {**served.cloud, "KEY_ID": "alias/nobodys", "EDGE_DIR": str(tmp_path / "edge")}
    sentence = "The store cannot be used (NotFoundException): check TABLE_NAME and KEY_ID.\n"
    assert run(chosen, sys.executable, "-m", "edge", "gateway") == (1, "", sentence)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with the Makefile, before anything was made."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "run.txt").touch()
    return tmp_path


def make(project: Path, *arguments: str, **chosen: str) -> tuple[int, str, str]:
    return run(chosen, str(shutil.which("make")), "-C", str(project), "--no-print-directory", *arguments)


def python(project: Path, folder: str, script: str) -> str:
    """Put a script where make looks for a Python; return its path within the project."""
    program = project / folder / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    return str(program.relative_to(project))


def test_a_machine_without_python_is_told_what_is_needed(project: Path) -> None:
    status, output, err = make(project, "run", PATH=str(project / "no-programs"))
    sentence = "Python 3.11 or newer, with venv, is needed: install it, or name it with PYTHON=…"
    assert (status, output, err.splitlines()[0]) == (2, "", sentence)


def test_virtual_environments_of_another_python_are_named(project: Path) -> None:
    for folder, version in {".venv": "3.11", ".venv-cloud": "3.11", "new": "3.12"}.items():
        python(project, folder, f"echo {version}")
    chosen = "PYTHON=new/bin/python"
    status, _, err = make(project, "-n", "cloud", chosen)
    different = ".venv and .venv-cloud are not of one Python, the one that PYTHON names"
    assert (status, different in err) == (2, True)
    assert make(project, "-n", "reset", chosen)[0] == 0  # which needs neither
