"""An HTTP transport for botocore's clients. It uses http.client and takes half the CPU time of botocore's session.

It is used only for direct connections to services with certificates of the authorities that botocore trusts by default.
If a proxy or other authorities are configured, botocore's session sends the requests.
"""

import os
import socket
import ssl
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from botocore import exceptions
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config
from botocore.exceptions import BotoCoreError
from botocore.httpsession import get_cert_path
from botocore.session import Session
from botocore.utils import get_environ_proxies
from urllib3.util import wait_for_read

# The most bytes of an answer's headers, and the most bytes of one read. Reads are small, because each thread keeps a
# buffer of this size.
_MAX_HEAD, _CHUNK = 1 << 16, 1 << 13
_HTTP, _OK = b"HTTP/1.1 ", b"HTTP/1.1 200 "  # the first bytes of every answer, and of a successful answer
_END_OF_HEADERS = b"\r\n\r\n"


def install(session: Session) -> None:
    """Make the clients of a session send with a Transport. botocore's handlers of the event before-send still run."""
    other_authorities = session.get_config_variable("ca_bundle") or os.environ.get("REQUESTS_CA_BUNDLE")

    class Client:
        def __init__(self, *, endpoint: Any, client_config: Config, **options: Any) -> None:
            is_special = other_authorities and endpoint.host.startswith("https:")
            if not (is_special or get_environ_proxies(endpoint.host)):
                endpoint.http_session = Transport(endpoint.host, endpoint.http_session, client_config)
            super().__init__(endpoint=endpoint, client_config=client_config, **options)  # type: ignore[call-arg]

    def extend(base_classes: list[type], **_: object) -> None:
        base_classes.insert(0, Client)

    session.register("creating-client-class", extend)


@dataclass(frozen=True)
class DirectAnswer:
    """A complete answer. It is a success if its status is 200."""

    is_success: bool
    body: bytes


@dataclass(frozen=True)
class _Content:
    """The complete body of an answer. botocore calls its methods to read it."""

    body: bytes

    def stream(self) -> tuple[bytes]:
        return (self.body,)


class Transport:
    """Sends requests to one address over pooled connections. botocore's session sends all other requests."""

    def __init__(self, address: str, session: Any, config: Config) -> None:
        self._address, self._session, self._config = urlsplit(address), session, config
        self._tls = _tls_settings() if self._address.scheme == "https" else None
        self._idle: deque[HTTPConnection] = deque()

    def send(self, request: AWSPreparedRequest) -> AWSResponse:
        """Return the answer to a request. Raises the same errors as botocore's session, which botocore retries."""
        if request.stream_output or urlsplit(request.url)[:2] != self._address[:2]:
            return self._session.send(request)
        connection = self._take_idle() or self._open(request.url)
        try:
            answer = _answer(connection, request)
        except BotoCoreError:
            # The other idle connections may be broken too. botocore retries only a few times, so its attempts could all
            # fail on such connections.
            self._close_idle()
            raise
        self._put_back(connection)
        return answer

    def exchange(self, messages: Sequence[bytes]) -> list[DirectAnswer] | None:
        """Send the bytes of requests, each over its own connection. Return their answers, or None if one is incomplete.

        Raises BotoCoreError if there is no answer.
        """
        url, errors = self._address.geturl(), (exceptions.ReadTimeoutError, exceptions.ConnectionClosedError)
        connections = [self._take_idle() or self._open(url) for _ in messages]
        with _botocore_errors(connections, url, *errors):
            for connection, message in zip(connections, messages, strict=True):
                connection.sock.sendall(message)
            answers = [_read_answer(connection.sock) for connection in connections]
        complete = [answer for answer in answers if answer]
        is_complete = len(complete) == len(messages)
        for connection in connections:
            (self._put_back if is_complete else HTTPConnection.close)(connection)
        return complete if is_complete else None

    def close(self) -> None:
        """Close the idle connections."""
        self._close_idle()
        self._session.close()

    def _put_back(self, connection: HTTPConnection) -> None:
        """Return a connection to the pool. Close it if the service closed it or the pool is full."""
        if connection.sock and len(self._idle) < self._config.max_pool_connections:
            self._idle.append(connection)
        else:
            connection.close()

    def _take_idle(self) -> HTTPConnection | None:
        """Return the most recently used connection that the service has not closed, or None."""
        with suppress(IndexError):  # no idle connection is left
            while True:
                connection = self._idle.pop()
                # The service sends nothing without a request. So if a connection is readable, the service closed it.
                if not wait_for_read(connection.sock, 0):
                    return connection
                connection.close()
        return None

    def _close_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def _open(self, url: str) -> HTTPConnection:
        address, timeout = self._address, self._config.connect_timeout
        if self._tls:
            connection: HTTPConnection
            connection = HTTPSConnection(address.hostname or "", address.port, timeout=timeout, context=self._tls)
        else:
            connection = HTTPConnection(address.hostname or "", address.port, timeout=timeout)
        with _botocore_errors([connection], url, exceptions.ConnectTimeoutError, exceptions.EndpointConnectionError):
            connection.connect()
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection.sock.settimeout(self._config.read_timeout)
        return connection


def _answer(connection: HTTPConnection, request: AWSPreparedRequest) -> AWSResponse:
    with _botocore_errors([connection], request.url, exceptions.ReadTimeoutError, exceptions.ConnectionClosedError):
        connection.request(request.method, _target(request.url), request.body, request.headers)
        answer = connection.getresponse()
        content = _Content(answer.read())
    return AWSResponse(request.url, answer.status, answer.getheaders(), content)


def _read_answer(connection: socket.socket) -> DirectAnswer | None:
    """Return an answer with a Content-Length. Return None for any other answer.

    Raises OSError.
    """
    received = b""
    while _END_OF_HEADERS not in received:
        if len(received) > _MAX_HEAD or not (more := connection.recv(_CHUNK)):
            return None
        received += more
    head, _, body = received.partition(_END_OF_HEADERS)
    status, *lines = head.split(b"\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
    length = fields.get(b"content-length", b"")
    if not status.startswith(_HTTP) or b"transfer-encoding" in fields or not length.isdigit():
        return None
    parts, remaining = [body], int(length) - len(body)
    while remaining > 0 and (more := connection.recv(_CHUNK)):
        parts.append(more)
        remaining -= len(more)
    return DirectAnswer(status.startswith(_OK), b"".join(parts)) if remaining == 0 else None


@contextmanager
def _botocore_errors(
    connections: Iterable[HTTPConnection], url: str, late: type[BotoCoreError], broken: type[BotoCoreError]
) -> Iterator[None]:
    """Close the connections if a `with` block fails, and raise the matching exception of botocore.

    A timeout raises `late`, a TLS error raises SSLError, and any other error raises `broken`.
    """
    try:
        yield
    except (OSError, HTTPException) as error:
        for connection in connections:
            connection.close()
        refused = exceptions.SSLError if isinstance(error, ssl.SSLError) else broken
        kind = late if isinstance(error, TimeoutError) else refused
        raise kind(endpoint_url=url, error=error) from error


@cache
def _tls_settings() -> ssl.SSLContext:
    """Return TLS settings that trust botocore's authorities, which a process reads once."""
    return ssl.create_default_context(cafile=get_cert_path(True))


def _target(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
