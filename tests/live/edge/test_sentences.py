"""The sentence with which `python -m edge` ends if it cannot run.

The other invalid settings are in tests/edge/process/test_settings.py.
"""

import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


def said(folder: Path, *arguments: str, **settings: str) -> str:
    """Return its stderr, after an exit with status 1."""
    environment = {**os.environ, "EDGE_DIR": str(folder / "edge"), **settings}
    command = [sys.executable, "-m", "edge", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    return done.stderr


def test_an_invalid_setting_is_named(tmp_path: Path) -> None:
    assert said(tmp_path, SSH_PORT="0") == "SSH_PORT=0 is not a port: choose one from 1 to 65535.\n"


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_port_that_another_process_has_is_named(tmp_path: Path, family: int, host: str) -> None:
    with socket.create_server((host, 0), family=family) as other:
        port = other.getsockname()[1]
        sentence = f"Port {port} cannot be used (Address already in use): choose another with SSH_PORT=….\n"
        assert said(tmp_path, EDGE_HOST=host, SSH_PORT=str(port)) == sentence


def test_a_second_edge_in_the_folder_of_another_says_so(tmp_path: Path) -> None:
    (folder := tmp_path / "edge").mkdir()
    with (folder / "edge.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert said(tmp_path) == f"Another edge uses the folder {folder}: end it, or set another EDGE_DIR=….\n"
