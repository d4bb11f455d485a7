"""Visitors that count: requests on kept and on new connections, one after the other, and downloads."""

import http.client
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests import openssl
from tests.live.edge.running import Upstream
from tests.needs import need

PAUSE = 0.15
_TIMEOUT = 20.0  # seconds of a request


@dataclass(frozen=True)
class Address:
    """A name at a port of an edge, and the authority that visitors trust."""

    host: str
    port: int
    authority: Path

    def connect(self) -> http.client.HTTPSConnection:
        """Return a connection that is open: what fails here is counted, too."""
        context = _build_context(self.authority)
        connection = http.client.HTTPSConnection(self.host, self.port, timeout=_TIMEOUT, context=context)
        connection.sock = context.wrap_socket(
            socket.create_connection(("127.0.0.1", self.port), _TIMEOUT), server_hostname=self.host
        )
        return connection

    def answers(self) -> bool:
        """Return whether a request is answered now."""
        return bool(self.read())

    def read(self) -> bytes:
        """Return the body of a response on a new connection, or b"" without a response of status 200."""
        try:
            connection = self.connect()
            connection.request("GET", "/")
            answer = connection.getresponse()
            body = answer.read()
            connection.close()
        except (OSError, http.client.HTTPException):
            return b""
        return body if answer.status == 200 else b""


@cache
def _build_context(authority: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority)


@dataclass
class Visitors:
    """Threads that visit an address until they are ended."""

    address: Address
    persistent: int
    fresh: int
    done: int = 0
    slowest: float = 0.0
    failures: list[str] = field(default_factory=list)
    _is_over: bool = False

    def __enter__(self) -> "Visitors":
        kinds = [True] * self.persistent + [False] * self.fresh
        self._threads = [threading.Thread(target=self._visit, args=(kind,), daemon=True) for kind in kinds]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        for thread in self._threads:
            thread.join(_TIMEOUT)

    def _visit(self, is_kept: bool) -> None:
        connection: http.client.HTTPSConnection | None = None
        while not self._is_over:
            start = time.monotonic()
            try:
                connection = connection or self.address.connect()
                connection.request("GET", "/")
                answer = connection.getresponse()
                body = answer.read()
                if answer.status != 200 or not body:
                    raise http.client.HTTPException(f"status {answer.status}")
                is_open = is_kept and not answer.will_close
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(f"{_clock()} {type(error).__name__} {error}")
                is_open = False
            self.done += 1
            self.slowest = max(self.slowest, time.monotonic() - start)
            if connection and not is_open:
                with suppress(OSError):
                    connection.close()
                connection = None
            time.sleep(PAUSE)  # below MAX_REQUESTS_PER_VISITOR


class Download:
    """A download of a path, in a thread. Its first bytes have come when it is made."""

    def __init__(self, address: Address, path: str) -> None:
        self.body, self.error = b"", ""
        self._address, self._path = address, path
        self._has_begun = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        assert self._has_begun.wait(_TIMEOUT), self.error

    def wait(self, seconds: float) -> int:
        """Wait for the end, and return the number of bytes."""
        self._thread.join(seconds)
        assert not self._thread.is_alive()
        assert not self.error, self.error
        return len(self.body)

    def _read(self) -> None:
        try:
            connection = self._address.connect()
            connection.request("GET", self._path)
            answer = connection.getresponse()
            while chunk := answer.read1():
                self.body += chunk
                self._has_begun.set()
        except (OSError, http.client.HTTPException) as error:
            self.error = f"{type(error).__name__} {error}"


class Http2Visitor:
    """A curl that visits an address over HTTP/2, on one connection while that is open."""

    def __init__(self, address: Address) -> None:
        need("curl")
        at = f"{address.host}:{address.port}"
        limits = [
            "--http2",
            "--rate",
            "400/m",
            "--no-progress-meter",
            "--max-time",
            str(int(_TIMEOUT)),
            "--resolve",
            f"{at}:127.0.0.1",
        ]
        output_options = ["-o", "/dev/null", "-w", "%{stderr}%{http_version} %{http_code} %{errormsg}\\n"]
        command = [
            "curl",
            "-s",
            *limits,
            "--cacert",
            str(address.authority),
            *output_options,
            f"https://{at}/?[1-9999]",
        ]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.done, self.failures = 0, list[str]()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self) -> "Http2Visitor":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._thread.join(_TIMEOUT)

    def _read(self) -> None:
        for line in self._process.stderr or ():
            self.done += 1
            if line.split() != ["2", "200"]:
                self.failures.append(f"{_clock()} {line.rstrip()}")


def _clock() -> str:
    """Return the time in UTC with milliseconds, as in Envoy's access log."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")[11:23]


@contextmanager
def tls_upstream(host: str, folder: Path) -> Iterator[tuple[int, Path]]:
    """Serve HTTPS for a tunnel with TLS passthrough. Yield the port, and a file with the authority to trust."""
    server_pair = openssl.issue(f"/CN={host}", extensions=(f"subjectAltName=DNS:{host}",))
    pair, authority = folder / f"{host}.pem", folder / f"{host}.crt"
    pair.write_text(f"{server_pair.certificate}\n{server_pair.key}")
    authority.write_text(server_pair.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)
    server = TlsServer(("127.0.0.1", 0), SlowUpstream)
    server.context = context
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port, authority
    finally:
        server.shutdown()
        server.server_close()


class TlsServer(ThreadingHTTPServer):
    """A server with a thread for each connection, in which the handshake takes place."""

    context: ssl.SSLContext
    block_on_close = False

    def finish_request(self, request: Any, client_address: Any) -> None:
        with suppress(OSError):
            super().finish_request(self.context.wrap_socket(request, server_side=True), client_address)


class SlowUpstream(Upstream):
    """A server whose /slow/N takes N tenths of a second to send N KB, and whose /endless never ends."""

    def do_GET(self) -> None:
        if self.path.startswith("/slow/"):
            self._send_slowly(int(self.path.rpartition("/")[2]))
        elif self.path == "/endless":
            self._send_slowly(1_000_000)
        else:
            self._begin(6)
            self.wfile.write(b"hello\n")

    def _send_slowly(self, tenths: int) -> None:
        self._begin(tenths << 10)
        with suppress(OSError):
            for _ in range(tenths):
                self.wfile.write(b"x" * 1024)
                self.wfile.flush()
                time.sleep(0.1)

    def _begin(self, length: int) -> None:
        self.send_response(200)
        self.send_header("content-length", str(length))
        self.end_headers()
