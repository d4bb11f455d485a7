"""Fetches the answer of a challenge from one address of a domain, as the CA does. Blocks."""

import io
import socket
import ssl
import time
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

from edge.issuer.rules.preflight import HttpAnswer

PATH = "/.well-known/acme-challenge/"
_SECONDS = 5.0  # seconds for the requests to one address, including a redirect
_MAX_BYTES = 16 * 1024  # the most bytes of a response that are read
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HTTPS = 443


@dataclass(frozen=True)
class Expected:
    """The token of a challenge, and the answer that an address of the domain should return."""

    domain: str
    token: str
    answer: str


def probe(address: str, port: int, expected: Expected) -> HttpAnswer:
    """Fetch the answer of a token from an address. Follow at most one redirect, to https on the same host."""
    deadline = time.monotonic() + _SECONDS
    try:
        response = _get(address, port, expected, deadline)
        if response.status in _REDIRECTS:
            if not _is_own(response.headers.get("location", ""), expected):
                return HttpAnswer(address, f"redirects elsewhere ({response.status})", False)
            response = _get(address, _HTTPS, expected, deadline)
        is_ours = response.status == 200 and response.read(_MAX_BYTES).strip() == expected.answer.encode()
    except TimeoutError:
        return HttpAnswer(address, "does not answer", False)
    except ConnectionRefusedError:
        return HttpAnswer(address, "refuses connections", False)
    except (HTTPException, ValueError):
        return HttpAnswer(address, "sends no valid HTTP response", False)
    except OSError:
        return HttpAnswer(address, "cannot be reached", False)
    return HttpAnswer(address, f"answered {response.status}", is_ours)


def _get(address: str, port: int, expected: Expected, deadline: float) -> HTTPResponse:
    """Request the token's path from an address. Raises OSError, HTTPException."""
    host = expected.domain if port in (80, _HTTPS) else f"{expected.domain}:{port}"
    request = (
        f"GET {PATH}{expected.token} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: tunnel-edge\r\nConnection: close\r\n\r\n"
    )
    with closing(socket.create_connection((address, port), _seconds_left(deadline))) as plain:
        connection = _with_tls(plain, expected.domain) if port == _HTTPS else plain
        connection.sendall(request.encode())
        response = HTTPResponse(_Received(_read(connection, deadline)))  # type: ignore[arg-type]
    response.begin()
    return response


def _with_tls(plain: socket.socket, domain: str) -> ssl.SSLSocket:
    """Return an encrypted connection to the host, without verifying the host's certificate.

    The CA does not verify the certificate either: the domain may have no valid certificate yet.
    """
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(plain, server_hostname=domain)


def _read(connection: socket.socket, deadline: float) -> bytes:
    """Return the bytes that a server sends until it closes the connection, limited in size and time."""
    read = b""
    while len(read) < _MAX_BYTES:
        try:
            connection.settimeout(_seconds_left(deadline))
            part = connection.recv(_MAX_BYTES - len(read))
        except TimeoutError:
            if not read:
                raise
            break
        if not part:
            break
        read += part
    return read


class _Received:
    """A socket for `HTTPResponse`, from which only received bytes can be read."""

    def __init__(self, received: bytes) -> None:
        self._received = received

    def makefile(self, *_: Any) -> io.BytesIO:
        return io.BytesIO(self._received)


def _is_own(location: str, expected: Expected) -> bool:
    """Return whether a redirect goes to the same host and path, but to https. Raises ValueError."""
    parts = urlsplit(location)
    is_own_host = parts.scheme == "https" and parts.hostname == expected.domain and parts.port in (None, _HTTPS)
    return is_own_host and parts.path == f"{PATH}{expected.token}"


def _seconds_left(deadline: float) -> float:
    """Return the seconds until a deadline. Raises TimeoutError."""
    if (seconds := deadline - time.monotonic()) <= 0:
        raise TimeoutError
    return seconds
