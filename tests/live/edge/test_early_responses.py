"""Responses that come before their request is complete, trailers, and interim responses, as visitors receive them."""

import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, until

pytestmark = needs_envoy
_UPLOAD = 3 << 20
_HEAD = b"HTTP/1.1 413 Content Too Large\r\nconnection: close\r\ncontent-length: 9\r\n\r\n"
_OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
_MANY_HEADERS = b"".join(b"x-%d: 1\r\n" % number for number in range(900))
_ANSWERS = {
    b"/closes": _HEAD + b"too large",
    b"/reads": _HEAD + b"too large",
    b"/hints": b"HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n" + _OK,
    b"/trailers": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nsum: 7\r\n\r\n",
    b"/headers": _OK.replace(b"\r\n", b"\r\n" + _MANY_HEADERS, 1),
}


def _answer(connection: socket.socket) -> None:
    """Answer one request as its path says."""
    with connection, suppress(OSError):
        data = b""
        while b"\r\n\r\n" not in data:
            if not (more := connection.recv(4096)):
                return
            data += more
        path, size = data.split()[1], len(data.partition(b"\r\n\r\n")[2])
        is_asked = b"expect: 100-continue" in data.lower()
        if path == b"/expects":
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" if is_asked and not size else b"")
            _read(connection, 4 - size)
        connection.sendall(_ANSWERS.get(path, _OK))
        if path == b"/reads":
            _read(connection, _UPLOAD - size)


def _read(connection: socket.socket, size: int) -> None:
    while size > 0 and (more := connection.recv(min(size, 1 << 16))):
        size -= len(more)


@contextmanager
def _server() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=_answer, args=(listening.accept()[0],), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module", autouse=True)
def tunnel(edge: Edge) -> Iterator[None]:
    """Open a tunnel for all tests."""
    with _server() as port:
        client = edge.ssh(edge.key("acct_A"), "-R", f"demo:80:127.0.0.1:{port}")
        edge.clients.remove(client)  # it stays from test to test
        until(lambda: edge.status("demo") == "200")
        yield
        client.kill()


@pytest.mark.needs("curl")
@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
@pytest.mark.parametrize("path", ["/closes", "/reads"])
def test_a_refused_upload_is_answered_by_each_version_of_http(
    edge: Edge, tmp_path: Path, version: str, path: str
) -> None:
    body = tmp_path / "body"
    body.write_bytes(b"x" * _UPLOAD)
    trust = ["--cacert", str(edge.settings.directory / "authority.crt"), *edge.resolved("demo")]
    options = ["-H", "expect:", "--data-binary", f"@{body}", "-w", " %{http_code}", edge.url("demo", path)]
    command = ["curl", "-sS", "--max-time", "20", version, *trust, *options]
    results = [subprocess.run(command, capture_output=True, text=True) for _ in range(20)]
    assert Counter((result.stdout, result.stderr, result.returncode) for result in results) == {
        ("too large 413", "", 0): 20
    }


@pytest.mark.needs("curl")
@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_the_upstream_asks_for_the_body_of_a_request_that_expects_it(edge: Edge, version: str) -> None:
    options = ["-H", "expect: 100-continue", "--expect100-timeout", "60", "--data-binary", "body"]
    response_lines = edge.curl("demo", version, "-i", *options, path="/expects").replace("\r", "").splitlines()
    assert [line for line in response_lines if line.startswith("HTTP/")] == (
        ["HTTP/1.1 100 Continue", "HTTP/1.1 200 OK"] if version == "--http1.1" else ["HTTP/2 100 ", "HTTP/2 200 "]
    )


def test_the_upstream_refuses_a_request_before_its_body(edge: Edge) -> None:
    head = b"POST /closes HTTP/1.1\r\nhost: demo.tunnels.localhost\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n"
    with edge.connect("demo") as connection:
        connection.sendall(head)
        assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")


@pytest.mark.needs("curl")
@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
@pytest.mark.parametrize(
    ("path", "expected"),
    [("/hints", "link: </a.css>; rel=preload"), ("/trailers", "oksum: 7"), ("/headers", "x-899: 1")],
)
def test_interim_responses_trailers_and_900_headers_pass(edge: Edge, version: str, path: str, expected: str) -> None:
    assert expected in edge.curl("demo", version, "-i", path=path).replace("\r", "").splitlines()
