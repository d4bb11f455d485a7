"""HTTP for botocore's clients by Python's http.client, in half the CPU of botocore's own session.

Only where requests go straight to the service and its certificate is one that botocore trusts by itself; where a proxy
or other authorities are set, that session sends them.
"""

import os
import socket
import ssl
from collections import deque
from collections.abc import Iterator
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


def use_in(session: Session) -> None:
    """Make the clients of a session send by a Transport what no handler of before-send answers."""
    own_authorities = session.get_config_variable("ca_bundle") or os.environ.get("REQUESTS_CA_BUNDLE")

    class Client:
        def __init__(self, *, endpoint: Any, client_config: Config, **others: Any) -> None:
            needs_more = own_authorities and endpoint.host.startswith("https:")
            if not (needs_more or get_environ_proxies(endpoint.host)):
                endpoint.http_session = Transport(endpoint.host, endpoint.http_session, client_config)
            super().__init__(endpoint=endpoint, client_config=client_config, **others)  # type: ignore[call-arg]

    def extend(base_classes: list[type], **_: object) -> None:
        base_classes.insert(0, Client)

    session.register("creating-client-class", extend)


@dataclass(frozen=True)
class _Content:
    """A body that has been read, in the form in which botocore reads one."""

    whole: bytes

    def stream(self) -> tuple[bytes]:
        return (self.whole,)


class Transport:
    """Sends requests to one address over connections that are kept, and those to others by botocore's session."""

    def __init__(self, address: str, session: Any, config: Config) -> None:
        self._place, self._session, self._config = urlsplit(address), session, config
        self._tls = _trusting() if self._place.scheme == "https" else None
        self._idle: deque[HTTPConnection] = deque()

    def send(self, request: AWSPreparedRequest) -> AWSResponse:
        """Return the answer to a request. Raises what botocore's session raises, which its retries know."""
        if request.stream_output or urlsplit(request.url)[:2] != self._place[:2]:
            return self._session.send(request)
        connection = self._kept() or self._opened(request)
        try:
            answer = _answer(connection, request)
        except BotoCoreError:
            self._close_idle()  # what ended this one unnoticed may have ended them, and attempts are few
            raise
        self._keep(connection)
        return answer

    def close(self) -> None:
        """Close what is open and not in use."""
        self._close_idle()
        self._session.close()

    def _keep(self, connection: HTTPConnection) -> None:
        """Keep a connection for the next request, unless the service has said that it closes it or there are enough."""
        if connection.sock and len(self._idle) < self._config.max_pool_connections:
            self._idle.append(connection)
        else:
            connection.close()

    def _kept(self) -> HTTPConnection | None:
        """Return the connection that was used last and is open at the other end too, None where there is none."""
        with suppress(IndexError):  # other threads take from it at the same time
            while True:
                connection = self._idle.pop()
                if not wait_for_read(connection.sock, 0):  # nothing comes without a request but the end
                    return connection
                connection.close()
        return None

    def _close_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def _opened(self, request: AWSPreparedRequest) -> HTTPConnection:
        place, patience = self._place, self._config.connect_timeout
        if self._tls:
            connection: HTTPConnection
            connection = HTTPSConnection(place.hostname or "", place.port, timeout=patience, context=self._tls)
        else:
            connection = HTTPConnection(place.hostname or "", place.port, timeout=patience)
        with _failing(connection, request, exceptions.ConnectTimeoutError, exceptions.EndpointConnectionError):
            connection.connect()
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection.sock.settimeout(self._config.read_timeout)
        return connection


def _answer(connection: HTTPConnection, request: AWSPreparedRequest) -> AWSResponse:
    with _failing(connection, request, exceptions.ReadTimeoutError, exceptions.ConnectionClosedError):
        connection.request(request.method, _target(request.url), request.body, request.headers)
        answer = connection.getresponse()
        content = _Content(answer.read())
    return AWSResponse(request.url, answer.status, answer.getheaders(), content)


@contextmanager
def _failing(
    connection: HTTPConnection, request: AWSPreparedRequest, late: type[BotoCoreError], broken: type[BotoCoreError]
) -> Iterator[None]:
    """Close the connection where it fails, and raise what botocore calls that: `late` after its time, else `broken`."""
    try:
        yield
    except (OSError, HTTPException) as error:
        connection.close()
        refused = exceptions.SSLError if isinstance(error, ssl.SSLError) else broken
        kind = late if isinstance(error, TimeoutError) else refused
        raise kind(endpoint_url=request.url, error=error) from error


@cache
def _trusting() -> ssl.SSLContext:
    """Return TLS settings that trust botocore's authorities; these are read once, not for each connection."""
    return ssl.create_default_context(cafile=get_cert_path(True))


def _target(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
