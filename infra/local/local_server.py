"""Chalice's local server, made to answer as the API gateway does: unknown paths and methods reach the app.

Chalice's own answers those itself, holds every keep-alive answer back for 40 ms, and breaks the connection after a
HEAD or a chunked request.
"""

import re
import socket
import sys
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, BinaryIO

from chalice.app import Chalice
from chalice.config import Config
from chalice.local import (
    ChaliceRequestHandler,
    CustomLocalChalice,
    LambdaEventConverter,
    LocalChalice,
    LocalDevServer,
    LocalGateway,
    MatchResult,
    RouteMatcher,
    ThreadedHTTPServer,
)

from chalicelib import ids
from chalicelib.http import middleware
from chalicelib.http.errors import ApiError, InvalidRequest, PayloadTooLarge
from infra.local import request_heads

_WHOLE = re.compile(r"https?://([^/?]*)(.*)", flags=re.IGNORECASE)
_NOT_HTTP = "The request is not HTTP as this server reads it: "
MAX_BODY = 10 * 1024 * 1024  # API Gateway's own limit; the app's is lower


class Matcher(RouteMatcher):
    """Routes as API Gateway finds them: its greedy path takes what no other does."""

    def match_route(self, url: str) -> MatchResult:
        if not url.startswith("//"):  # which Chalice would read as the name of a host
            path, question, query = url.partition("?")
            try:
                return super().match_route(path.replace(";", "%3B") + question + query)  # it drops what follows one
            except ValueError:
                pass
        return MatchResult(middleware.ANY_PATH, {}, None)


class Everyone:
    """Lets every request through to the app, which authenticates where no gateway did."""

    def authorize(self, path: str, event: dict[str, Any], context: Any) -> tuple[dict[str, Any], Any]:
        return event, context


class Gateway(LocalGateway):
    """Chalice's stand-in for API Gateway, with the fallbacks for paths and methods that the real one is given."""

    def __init__(self, app: Chalice, config: Config) -> None:
        super().__init__(app, config)
        self.event_converter = LambdaEventConverter(Matcher(list(app.routes)), app.api.binary_types)
        self._authorizer = Everyone()  # type: ignore[assignment]


class Recorded:
    """A stream, and the lines that were read from it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.lines: list[bytes] = []

    def readline(self, limit: int = -1) -> bytes:
        """Read a line, and keep it."""
        self.lines.append(self._stream.readline(limit))
        return self.lines[-1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Handler(ChaliceRequestHandler):
    """One connection. Answers leave in one packet, at once."""

    rfile: Any
    path: str
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout = 75  # seconds that an idle connection is kept

    def __init__(self, *connection: Any, app_object: Chalice, config: Config) -> None:
        self.local_gateway = Gateway(app_object, config)
        BaseHTTPRequestHandler.__init__(self, *connection)

    def parse_request(self) -> bool:
        """Read the head of a request, and keep its lines: Python's parser makes something of each."""
        stream = self.rfile
        self.rfile = self._head = Recorded(stream)
        try:
            return bool(super().parse_request()) and self._take_host()
        finally:
            self.rfile = stream

    def _take_host(self) -> bool:
        """Replace the Host header by the host of a request target that is a whole URL (RFC 9112, 3.2.2).

        Python's parser has joined slashes at the beginning of the path.
        """
        self.path = self.requestline.split()[1]
        if whole := _WHOLE.fullmatch(self.path):
            self.path = f"/{whole[2].removeprefix('/')}"
            if "Host" in self.headers:
                self.headers.replace_header("Host", whole[1])
        return True

    def _generic_handle(self) -> None:
        if self._takes_body():
            super()._generic_handle()

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = do_PATCH = do_OPTIONS = _generic_handle

    def _takes_body(self) -> bool:
        if fault := request_heads.fault(self.raw_requestline, self._head.lines):
            self._refuse(InvalidRequest(f"{_NOT_HTTP}{fault}."))
            return False
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not (length.isascii() and length.isdigit()):
            self._refuse(InvalidRequest("Send the body whole, with its length in the header 'Content-Length'."))
        elif len(length) > 18 or int(length) > MAX_BODY:
            self._refuse(PayloadTooLarge(f"The body is larger than {MAX_BODY} bytes."))
        else:
            return True
        return False

    def _send_http_response(self, code: int, headers: dict[str, Any], body: str | bytes | None) -> None:
        if code == 204:  # has neither a body nor a length
            self.send_response(code)
            self._send_headers({name: value for name, value in headers.items() if name != "Content-Type"})
            return
        super()._send_http_response(code, headers, body)

    def _send_http_response_with_body(self, code: int, headers: dict[str, Any], body: str | bytes) -> None:
        if self.command != "HEAD":
            super()._send_http_response_with_body(code, headers, body)
            return
        self.send_response(code)
        self._send_headers({**headers, "Content-Length": str(len(body))})

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Give what the HTTP parser refuses the one error body; leave a method it does not know to the app."""
        if code == HTTPStatus.NOT_IMPLEMENTED:
            self._generic_handle()
            self.wfile.flush()
            return
        self.request_version = self.protocol_version  # a version that was not read would get a body without a head
        fault = (message or HTTPStatus(code).phrase).partition(" (")[0]  # what follows repeats what was sent
        self._refuse(InvalidRequest(f"{_NOT_HTTP}{fault}."))

    def _refuse(self, refusal: ApiError) -> None:
        """Answer without the app, and end the connection: what follows on it cannot be told from a body."""
        operation_id = ids.new("op")
        response = middleware.error_response(refusal, operation_id)
        ending = {"Operation-Id": operation_id, "Connection": "close"}
        self._send_http_response(response.status_code, {**response.headers, **ending}, response.body)
        self._hear_out()

    def _hear_out(self) -> None:
        """Take what is still on its way: closed before, the connection would break and lose the answer."""
        self.wfile.flush()
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(1)
            for _ in range(1024):  # of at most 64 KiB
                if not self.rfile.read1(64 * 1024):
                    return

    def handle_expect_100(self) -> bool:
        if not self._takes_body():
            return False
        proceed = super().handle_expect_100()
        self.wfile.flush()
        return bool(proceed)

    def log_message(self, *_: object) -> None:
        """Write nothing: the app logs a line for every request."""


class Server(ThreadedHTTPServer):
    """A thread for each connection, and room for many that arrive at once."""

    request_queue_size = 128

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = self.socket.getsockname()[:2]  # without asking a name server

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def create(app: Chalice, host: str, port: int) -> LocalDevServer:
    """Return a server of the app, listening. Raises OSError when the port is taken."""
    CustomLocalChalice.__bases__ = (LocalChalice, type(app))  # Chalice's own way to a request for each thread
    app.__class__ = CustomLocalChalice
    config = Config.create(chalice_app=app, lambda_timeout=29)
    return LocalDevServer(app, config, host, port, Handler, Server)
