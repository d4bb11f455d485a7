"""The sentence with which `python -m edge` ends if it cannot run.

The other invalid settings are in tests/edge/process/test_settings.py.
"""

import fcntl
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.conftest import ROOT

_TRIES = 10  # more than the tries of a call
_CREDENTIALS = {"AWS_DEFAULT_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


def run_edge(folder: Path, *arguments: str, **settings: str) -> str:
    """Return its stderr, after an exit with status 1."""
    environment = {**os.environ, "EDGE_DIR": str(folder / "edge"), **settings}
    command = [sys.executable, "-m", "edge", *arguments]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=30)
    assert result.returncode == 1
    return result.stderr


def test_an_invalid_setting_is_named(tmp_path: Path) -> None:
    assert run_edge(tmp_path, SSH_PORT="0") == "SSH_PORT=0 is not a port: choose one from 1 to 65535.\n"


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_port_that_another_process_has_is_named(tmp_path: Path, family: int, host: str) -> None:
    with socket.create_server((host, 0), family=family) as other:
        port = other.getsockname()[1]
        sentence = f"Port {port} cannot be used (Address already in use): choose another with SSH_PORT=….\n"
        assert run_edge(tmp_path, EDGE_HOST=host, SSH_PORT=str(port)) == sentence


def test_a_second_edge_in_the_folder_of_another_says_so(tmp_path: Path) -> None:
    (folder := tmp_path / "edge").mkdir()
    with (folder / "edge.lock").open("w") as lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        assert (
            run_edge(tmp_path)
            == f"Another edge uses the folder {folder}: end that process, or choose another folder with EDGE_DIR=….\n"
        )


def test_a_store_that_throttles_is_tried_again(tmp_path: Path) -> None:
    with _store("ProvisionedThroughputExceededException", "ResourceNotFoundException") as url:
        sentence = "start 'make run' first, or set AWS_ENDPOINT_URL to another store.\n"
        expected = f"The store cannot be used (ResourceNotFoundException): {sentence}"
        assert run_edge(tmp_path, "control", AWS_ENDPOINT_URL=url, **_CREDENTIALS) == expected


@contextmanager
def _store(*codes: str) -> Iterator[str]:
    """Serve a store that refuses each call with the next error, and finally always with the last. Yield its URL."""
    responses = [*(code for code in codes[:-1] for _ in range(_TRIES)), codes[-1]]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            body = json.dumps({"__type": responses.pop(0) if len(responses) > 1 else responses[0]}).encode()
            self.send_response(400)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server, ThreadPoolExecutor(1) as pool:
        pool.submit(server.serve_forever)
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
