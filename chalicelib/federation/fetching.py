"""GET of an issuer's JSON document, limited in bytes and time. Connects to public addresses only.

The name is resolved once, and the connection uses the resolved address. Redirects are not followed.
"""

import io
import json
import os
import re
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from http.client import HTTPException, HTTPResponse
from typing import Any

from chalicelib import tracing
from chalicelib.federation import addresses
from chalicelib.federation.addresses import Resolve

SECONDS = 3.0
MAX_BYTES = 256 * 1024  # the maximum size of a response: headers and body together

_LOOPBACK = "127.0.0.1"
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?"
_URL = re.compile(rf"(https?)://({_HOST})(?::([1-9][0-9]{{0,4}}))?((?:/|\?)[!-\"$-~]*)?")
_PROXY = re.compile(rf"http://({_HOST}):([1-9][0-9]{{0,4}})/?")


class FetchFailed(Exception):
    """A document cannot be read. The exception's text is a short reason without anything that the server sent."""


@dataclass(frozen=True)
class Target:
    """The parts of a URL."""

    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, url: str) -> "Target":
        """Return the parts of an http or https URL. Raises FetchFailed."""
        match = _URL.fullmatch(url)
        port = int(match[3] or {"http": 80, "https": 443}[match[1]]) if match else 0
        if not match or not 0 < port <= 65535:
            raise FetchFailed("url")
        path = match[4] or "/"
        return cls(match[1], match[2], port, path if path.startswith("/") else f"/{path}")

    @property
    def netloc(self) -> str:
        default = {"http": 80, "https": 443}[self.scheme]
        return self.host if self.port == default else f"{self.host}:{self.port}"


@cache
def default_tls() -> ssl.SSLContext:
    """Return the TLS context, which verifies names and chains."""
    return ssl.create_default_context()


@dataclass(frozen=True)
class Fetcher:
    """Fetches documents. `allows_loopback` returns whether a port of 127.0.0.1 may be used."""

    allows_loopback: Callable[[int], bool]
    resolve: Resolve = addresses.look_up
    seconds: float = SECONDS
    tls: Callable[[], ssl.SSLContext] = default_tls
    proxy: str = field(default_factory=lambda: os.environ.get("OIDC_PROXY", ""))

    def read_json(self, url: str) -> Any:
        """Return the JSON document at a URL. Raises FetchFailed."""
        target = Target.parse(url)
        deadline = time.monotonic() + self.seconds
        try:
            return json.loads(self._read(target, deadline))
        except (OSError, HTTPException) as error:
            raise FetchFailed(type(error).__name__) from None
        except (ValueError, RecursionError):
            raise FetchFailed("the response of the issuer must be JSON") from None

    def _read(self, target: Target, deadline: float) -> bytes:
        """Return the body of a response. Raises FetchFailed unless its status is 200."""
        with closing(self._connect(target, deadline)) as connection:
            request = f"GET {target.path} HTTP/1.1\r\nHost: {target.netloc}\r\nAccept: application/json\r\n"
            trace = f"{tracing.HEADER}: {tracing.current()}\r\n" if tracing.current() else ""
            connection.sendall(f"{request}{trace}User-Agent: tunnel-edge\r\nConnection: close\r\n\r\n".encode())
            response = _begin(connection, deadline, "GET")
            if response.status != 200:
                raise FetchFailed(f"status {response.status}")
            return response.read()

    def _connect(self, target: Target, deadline: float) -> socket.socket:
        """Return a connection to a permitted address. It uses TLS for https."""
        is_loopback = target.host == _LOOPBACK and self.allows_loopback(target.port)
        if target.scheme != "https" and not is_loopback:
            raise FetchFailed("not https")
        connection = self._open(target, deadline, is_loopback)
        if target.scheme == "http":
            return connection
        try:
            connection.settimeout(_compute_timeout(deadline))
            return self.tls().wrap_socket(connection, server_hostname=target.host)
        except BaseException:
            connection.close()
            raise

    def _open(self, target: Target, deadline: float, is_loopback: bool) -> socket.socket:
        if is_loopback:
            return _open_first([_LOOPBACK], target.port, deadline)
        if self.proxy:
            return _open_tunnel(self.proxy, target, deadline)
        host_addresses = addresses.resolve(
            target.host, target.port, seconds=_compute_timeout(deadline), by=self.resolve
        )
        if not all(map(addresses.is_public, host_addresses)):
            raise FetchFailed("the host of the URL must have only public addresses")
        return _open_first(host_addresses, target.port, deadline)


class _Stream(io.RawIOBase):
    """A reader of a connection. It reads at most MAX_BYTES, and only until `deadline`."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        super().__init__()
        self._connection = connection
        self._deadline = deadline
        self._bytes_left = MAX_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._bytes_left <= 0:
            raise FetchFailed("too large")
        self._connection.settimeout(_compute_timeout(self._deadline))
        count = self._connection.recv_into(memoryview(buffer)[: self._bytes_left])
        self._bytes_left -= count
        return count

    def makefile(self, mode: str) -> io.BufferedReader:
        """Return a reader, as `HTTPResponse` requires of a socket."""
        return io.BufferedReader(self)


def _begin(connection: socket.socket, deadline: float, method: str) -> HTTPResponse:
    """Read the status and headers of a response."""
    response = HTTPResponse(_Stream(connection, deadline), method=method)  # type: ignore[arg-type]
    response.begin()
    return response


def _open_first(host_addresses: list[str], port: int, deadline: float) -> socket.socket:
    """Return a connection to the first address that accepts a connection."""
    for address in host_addresses[:-1]:
        try:
            return socket.create_connection((address, port), timeout=_compute_timeout(deadline) / 2)
        except OSError:
            continue
    return socket.create_connection((host_addresses[-1], port), timeout=_compute_timeout(deadline))


def _open_tunnel(proxy: str, target: Target, deadline: float) -> socket.socket:
    """Return a connection through a proxy. The proxy resolves the target's host name."""
    match = _PROXY.fullmatch(proxy)
    if not match:
        raise FetchFailed("OIDC_PROXY must be http://<host>:<port>")
    connection = socket.create_connection((match[1], int(match[2])), timeout=_compute_timeout(deadline))
    try:
        authority = f"{target.host}:{target.port}"
        connection.sendall(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        if _begin(connection, deadline, "CONNECT").status != 200:
            raise FetchFailed("the proxy in OIDC_PROXY refused the connection")
    except BaseException:
        connection.close()
        raise
    return connection


def _compute_timeout(deadline: float) -> float:
    """Return the seconds until a deadline. Raises TimeoutError."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds
