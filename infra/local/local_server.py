"""Chalice's local server, changed to behave like the API gateway.

Unknown paths and methods reach the app. Chalice's unchanged server answers them itself, delays every answer of a
keep-alive connection by 40 ms, and breaks the connection after a HEAD or a chunked request.
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

_ABSOLUTE_URL = re.compile(r"https?://([^/?]*)(.*)", flags=re.IGNORECASE)
_NOT_HTTP = "This server cannot parse the request: "
MAX_BODY = 10 * 1024 * 1024  # bytes: the limit of API Gateway. The app has a lower limit


class Matcher(RouteMatcher):
    """Match routes like API Gateway: a path without a route gets the fallback route `/{proxy+}`."""

    def match_route(self, url: str) -> MatchResult:
        if not url.startswith("//"):  # Chalice would parse the text after `//` as a host name
            path, question, query = url.partition("?")
            try:
                return super().match_route(
                    path.replace(";", "%3B") + question + query
                )  # Chalice drops the text after ";"
            except ValueError:
                pass
        return MatchResult(middleware.ANY_PATH, {}, None)


class PassAuthorizer:
    """Replaces Chalice's local authorizer. Passes every request to the app, which authenticates the request."""

    def authorize(self, path: str, event: dict[str, Any], context: Any) -> tuple[dict[str, Any], Any]:
        return event, context


class Gateway(LocalGateway):
    """Chalice's local gateway. Requests without a route go to the app, as with API Gateway."""

    def __init__(self, app: Chalice, config: Config) -> None:
        super().__init__(app, config)
        self.event_converter = LambdaEventConverter(Matcher(list(app.routes)), app.api.binary_types)
        self._authorizer = PassAuthorizer()  # type: ignore[assignment]


class RecordingStream:
    """A stream that records the lines read from it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.lines: list[bytes] = []

    def readline(self, limit: int = -1) -> bytes:
        self.lines.append(self._stream.readline(limit))
        return self.lines[-1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Handler(ChaliceRequestHandler):
    """Serves one connection. Each answer is sent at once, in one packet."""

    rfile: Any
    path: str
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout = 75  # seconds until an idle connection is closed

    def __init__(self, *connection: Any, app_object: Chalice, config: Config) -> None:
        self.local_gateway = Gateway(app_object, config)
        BaseHTTPRequestHandler.__init__(self, *connection)

    def parse_request(self) -> bool:
        """Read the head of a request, and record its lines.

        `_accept_body` checks the recorded lines again, because Python's parser accepts invalid lines.
        """
        stream = self.rfile
        self.rfile = self._head = RecordingStream(stream)
        try:
            return bool(super().parse_request()) and self._apply_target_host()
        finally:
            self.rfile = stream

    def _apply_target_host(self) -> bool:
        """Replace the Host header by the host of an absolute URL (RFC 9112, 3.2.2).

        The path comes from the request line, because Python's parser joins its leading slashes.
        """
        self.path = self.requestline.split()[1]
        if absolute := _ABSOLUTE_URL.fullmatch(self.path):
            self.path = f"/{absolute[2].removeprefix('/')}"
            if "Host" in self.headers:
                self.headers.replace_header("Host", absolute[1])
        return True

    def _generic_handle(self) -> None:
        if self._accept_body():
            super()._generic_handle()

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = do_PATCH = do_OPTIONS = _generic_handle

    def _accept_body(self) -> bool:
        if fault := request_heads.find_fault(self.raw_requestline, self._head.lines):
            self._refuse(InvalidRequest(f"{_NOT_HTTP}{fault}."))
            return False
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not (length.isascii() and length.isdigit()):
            self._refuse(InvalidRequest("Send the whole body, with its length in the header 'Content-Length'."))
        elif len(length) > 18 or int(length) > MAX_BODY:
            self._refuse(PayloadTooLarge(f"The body is larger than {MAX_BODY} bytes."))
        else:
            return True
        return False

    def _send_http_response(self, code: int, headers: dict[str, Any], body: str | bytes | None) -> None:
        if code == 204:  # RFC 9110 forbids a body and a Content-Length for 204
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
        """Answer the HTTP parser's errors with the API's error body. Unknown methods go to the app."""
        if code == HTTPStatus.NOT_IMPLEMENTED:
            self._generic_handle()
            self.wfile.flush()
            return
        # After an invalid HTTP version, Python assumes HTTP/0.9: it would send neither a status line nor headers.
        self.request_version = self.protocol_version
        # Python's message ends with a quotation of the request in parentheses: drop this end.
        fault = (message or HTTPStatus(code).phrase).partition(" (")[0]
        self._refuse(InvalidRequest(f"{_NOT_HTTP}{fault}."))

    def _refuse(self, refusal: ApiError) -> None:
        """Send an error without calling the app, and close the connection.

        If the connection stayed open, the server could take the unread body of this request for the next request.
        """
        operation_id = ids.new("op")
        response = middleware.error_response(refusal, operation_id)
        ending = {"Operation-Id": operation_id, "Connection": "close"}
        self._send_http_response(response.status_code, {**response.headers, **ending}, response.body)
        self._drain()

    def _drain(self) -> None:
        """Read and drop the bytes that still arrive.

        A socket that is closed with unread bytes resets the connection, so the client could lose the response.
        """
        self.wfile.flush()
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(1)
            for _ in range(1024):
                if not self.rfile.read1(64 * 1024):
                    return

    def handle_expect_100(self) -> bool:
        if not self._accept_body():
            return False
        proceed = super().handle_expect_100()
        self.wfile.flush()
        return bool(proceed)

    def log_message(self, *_: object) -> None:
        """Do nothing, because the app logs every request."""


class Server(ThreadedHTTPServer):
    """A server with a thread for each connection, and a longer queue of new connections."""

    request_queue_size = 128

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        # the inherited method would look up the host name, which can send a DNS query
        self.server_name, self.server_port = self.socket.getsockname()[:2]

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def create(app: Chalice, host: str, port: int) -> LocalDevServer:
    """Return a listening server of the app. Raises OSError if the port is in use."""
    CustomLocalChalice.__bases__ = (LocalChalice, type(app))  # LocalChalice stores `current_request` for each thread
    app.__class__ = CustomLocalChalice
    config = Config.create(chalice_app=app, lambda_timeout=29)
    return LocalDevServer(app, config, host, port, Handler, Server)
