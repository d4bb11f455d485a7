"""What `python -m edge` says in one sentence where it cannot run as it is set up."""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.conftest import ROOT


def said(folder: Path, *arguments: str, **settings: str) -> str:
    """Return what it writes to stderr; its status is 1."""
    environment = {**os.environ, "EDGE_DIR": str(folder / "edge"), **settings}
    command = [sys.executable, "-m", "edge", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    return done.stderr


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"SSH_PORT": "0"}, "SSH_PORT=0 is not a port: choose one from 1 to 65535.\n"),
        ({"HOP_PORT": "65536"}, "HOP_PORT=65536 is not a port: choose one from 0 to 65535.\n"),
        ({"EDGE_CERTIFICATE": "a.pem"}, "EDGE_CERTIFICATE and EDGE_KEY belong together: set both or neither.\n"),
        ({"EDGE_KEY": "a.pem"}, "EDGE_CERTIFICATE and EDGE_KEY belong together: set both or neither.\n"),
    ],
)
def test_a_setting_that_cannot_be_is_named(tmp_path: Path, settings: dict[str, str], sentence: str) -> None:
    assert said(tmp_path, **settings) == sentence


class Keyless(BaseHTTPRequestHandler):
    """A cloud with an empty table and without a key."""

    def do_POST(self) -> None:
        is_kms = self.headers["x-amz-target"].startswith("TrentService")
        self.rfile.read(int(self.headers["content-length"]))
        body = b'{"__type": "NotFoundException", "message": "none"}' if is_kms else b'{"Items": [], "Count": 0}'
        self.send_response(400 if is_kms else 200)
        self.send_header("content-type", "application/x-amz-json-1.0")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def keyless() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Keyless)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_a_store_without_a_key_is_named(tmp_path: Path) -> None:
    with keyless() as url:
        sentence = "The store cannot be used (NotFoundException): see which table and key the environment names.\n"
        assert said(tmp_path, "gateway", AWS_ENDPOINT_URL=url) == sentence
