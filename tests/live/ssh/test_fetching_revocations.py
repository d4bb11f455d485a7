"""The script of docs/ssh.md that servers fetch their list with: it keeps the old one, whatever is answered."""

import re
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from chalicelib import clock
from chalicelib.crypto import keys, krl
from tests.conftest import ROOT

pytestmark = pytest.mark.needs("curl", "ssh")

EMPTY = krl.make(version=1, generated=clock.now(), certificates=[])
FULL = krl.make(version=2, generated=clock.now(), certificates=[], fingerprints=[bytes(32)])


class Service(HTTPServer):
    """Answers whatever it is told to, and remembers the tags that it is asked with."""

    status, content, tag = 200, EMPTY, '"1"'
    cut = 0  # bytes that are announced and not sent
    etags: list[str | None]


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_GET(self) -> None:
        self.server.etags.append(self.headers.get("If-None-Match"))
        is_known = self.headers.get("If-None-Match") == self.server.tag
        self.send_response(304 if is_known else self.server.status)
        self.send_header("ETag", self.server.tag)
        self.send_header("Content-Length", "0" if is_known else str(len(self.server.content)))
        self.end_headers()
        content = self.server.content[: len(self.server.content) - self.server.cut]
        self.wfile.write(b"" if is_known else content)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def service() -> Iterator[Service]:
    server = Service(("127.0.0.1", 0), Handler)
    server.etags = []
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def fetch(folder: Path, service: Service) -> subprocess.CompletedProcess[str]:
    """Run the script of the page; the list is in the folder."""
    match = re.search(r"^cat > fetch-krl <<'EOF'\n(.*?)^EOF$", (ROOT / "docs/ssh.md").read_text(), re.M | re.S)
    assert match
    (folder / "fetch-krl").write_text(match[1])
    (folder / "key.pub").write_text(keys.authorized_key(keys.generate_ed25519().public_key()))
    command = ["sh", "fetch-krl", f"http://127.0.0.1:{service.server_port}/krl", "revoked", "key.pub"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def test_a_new_list_is_put_in_place_and_asked_for_once(tmp_path: Path, service: Service) -> None:
    assert fetch(tmp_path, service).returncode == 0
    assert (tmp_path / "revoked").read_bytes() == EMPTY
    assert fetch(tmp_path, service).returncode == 0
    service.content, service.tag = FULL, '"2"'
    assert fetch(tmp_path, service).returncode == 0
    assert (tmp_path / "revoked").read_bytes() == FULL
    assert service.etags == [None, '"1"', '"1"']


@pytest.mark.parametrize(
    ("status", "content"),
    [(200, b""), (200, b"<html>"), (200, FULL[:-5]), (200, b"SSHKRL\n\0"), (404, FULL), (429, FULL), (503, FULL)],
    ids=["nothing", "html", "part", "head", "404", "429", "503"],
)
def test_nothing_else_is_put_in_place_and_a_good_list_is_afterwards(
    tmp_path: Path, service: Service, status: int, content: bytes
) -> None:
    fetch(tmp_path, service)
    service.status, service.content, service.tag = status, content, '"2"'
    result = fetch(tmp_path, service)
    assert result.returncode == 1
    assert result.stderr.startswith("fetch-krl: ")
    assert (tmp_path / "revoked").read_bytes() == EMPTY
    service.status, service.content = 200, FULL
    assert fetch(tmp_path, service).returncode == 0
    assert (tmp_path / "revoked").read_bytes() == FULL
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "fetch-krl", "key.pub", "revoked", "revoked.checked", "revoked.etag",
    ]  # fmt: skip


def test_an_answer_that_breaks_off_is_not_put_in_place_though_it_is_a_valid_list(
    tmp_path: Path, service: Service
) -> None:
    fetch(tmp_path, service)
    service.content, service.tag, service.cut = FULL, '"2"', len(FULL) - len(EMPTY)
    assert fetch(tmp_path, service).returncode == 1
    assert (tmp_path / "revoked").read_bytes() == EMPTY


def test_the_list_stays_while_the_service_is_away(tmp_path: Path, service: Service) -> None:
    fetch(tmp_path, service)
    service.server_close()
    result = fetch(tmp_path, service)
    assert result.returncode == 1
    assert "no answer" in result.stderr
    assert (tmp_path / "revoked").read_bytes() == EMPTY
