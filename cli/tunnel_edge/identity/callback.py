"""Receives the code at the end of a sign-in in a browser, by a web server on a loopback port."""

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tunnel_edge.errors import NOT_SIGNED_IN, CommandError
from tunnel_edge.identity.oidc import Attempt

PATH = "/callback"
SECONDS = 600  # seconds after which a sign-in fails if the user has not completed it
_PAGE = b"""<!doctype html><html lang="en"><meta charset="utf-8"><title>te</title>
<p>The sign-in is done here. Return to the terminal, and close this page.</p></html>
"""


class Callback(ThreadingHTTPServer):
    """A web server for one callback. It ignores requests without the right `state`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.attempt = Attempt.begin(f"http://127.0.0.1:{self.server_port}{PATH}")
        self.received: queue.SimpleQueue[str | CommandError] = queue.SimpleQueue()

    def wait(self) -> str:
        """Wait for the code, and return it. Raises CommandError if the issuer sends an error, or after SECONDS."""
        try:
            result = self.received.get(timeout=SECONDS)
        except queue.Empty:
            raise CommandError(
                "The sign-in was not completed within ten minutes: begin it again.", NOT_SIGNED_IN
            ) from None
        if isinstance(result, CommandError):
            raise result
        return result


@contextmanager
def listen() -> Iterator[Callback]:
    """Listen on a random port of 127.0.0.1."""
    with Callback() as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    server: Callback
    timeout = 10  # seconds in which the browser must send its request

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        received: str | CommandError | None = None
        if parts.path == PATH:
            try:
                received = self.server.attempt.code_of(parts.query)
            except CommandError as error:
                received = error
        self._answer(200 if received else 404, _PAGE if received else b"")
        if received:
            self.server.received.put(received)

    def _answer(self, status: int, page: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.send_header("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name in the standard library
        """Log nothing, because the URL of a request contains the code."""
