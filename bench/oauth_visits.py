"""Visitors of an edge host: requests over HTTP/2, and sign-ins at a provider as a browser does them."""

import http.client
import re
import socket
import ssl
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from typing import IO, Any
from urllib.parse import urlsplit

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, ResponseReceived, StreamEnded, StreamReset

from bench.edge_host import Host
from infra.local.cloud import HOST

_AT_ONCE = 20  # streams
_COOKIE = re.compile(r"([^=]+)=([^;]*)")
Headers = list[tuple[str, str]]


def connect(host: Host, name: str, *protocols: str) -> ssl.SSLSocket:
    """Open a TLS connection to a name."""
    context = ssl._create_unverified_context()
    context.set_alpn_protocols(protocols or ("http/1.1",))
    raw = socket.create_connection((HOST, host.port), 30)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else it waits for a delayed ACK
    return context.wrap_socket(raw, server_hostname=name)


class Http2:
    """A connection of HTTP/2 to a name."""

    def __init__(self, host: Host, name: str) -> None:
        self._name, self._socket = name, connect(host, name, "h2")
        self._connection = H2Connection(H2Configuration(header_encoding="utf-8"))
        self._connection.initiate_connection()

    def close(self) -> None:
        self._socket.close()

    def get(self, path: str, headers: Mapping[str, str], count: int) -> None:
        """Send GETs, some at once, and read their responses. Raises RuntimeError for another status than 200."""
        while count > 0:
            for headers_of_response in self._get_some(path, headers, min(count, _AT_ONCE)):
                if (status := dict(headers_of_response)[":status"]) != "200":
                    raise RuntimeError(f"{self._name}{path} answered {status}.")
            count -= _AT_ONCE

    def get_any(self, path: str, headers: Mapping[str, str], count: int = 1) -> list[Headers]:
        """Send GETs, some at once, and return the headers of their responses."""
        responses: list[Headers] = []
        while len(responses) < count:
            responses += self._get_some(path, headers, min(count - len(responses), _AT_ONCE))
        return responses

    def _get_some(self, path: str, headers: Mapping[str, str], count: int) -> list[Headers]:
        request_headers = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", self._name),
            (":path", path),
            *headers.items(),
        ]
        for _ in range(count):
            self._connection.send_headers(
                self._connection.get_next_available_stream_id(), request_headers, end_stream=True
            )
        received: dict[int, Headers] = {}
        ended = 0
        while ended < count:
            self._socket.sendall(self._connection.data_to_send())
            for event in self._connection.receive_data(self._read()):
                match event:
                    case ResponseReceived():
                        received[event.stream_id] = [(str(name), str(value)) for name, value in event.headers]
                    case DataReceived():
                        self._connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                    case StreamEnded():
                        ended += 1
                    case StreamReset() | ConnectionTerminated():
                        raise RuntimeError(f"{self._name}{path}: {event}")
        return list(received.values())

    def _read(self) -> bytes:
        if data := self._socket.recv(1 << 16):
            return data
        raise RuntimeError(f"{self._name} closed the connection.")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def http_error_302(self, _req: Any, fp: IO[bytes], _code: int, _msg: str, _headers: Message) -> Any:
        return fp


_PROVIDERS = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))


@dataclass
class Browser:
    """A visitor of a name, with its cookies. Each request has its own connection."""

    host: Host
    name: str
    cookies: dict[str, str] = field(default_factory=dict)

    @property
    def cookie(self) -> str:
        """Return the Cookie header."""
        return "; ".join(f"{name}={value}" for name, value in self.cookies.items())

    def open(self, path: str) -> float:
        """Sign in at the provider and open a page. Return the seconds of our four requests.

        Raises RuntimeError if the page is not shown.
        """
        began, response = time.perf_counter(), self.get(self.name, path)
        seconds = time.perf_counter() - began
        with _PROVIDERS.open(response.headers["location"]) as answer:
            location = answer.headers["location"]
        began = time.perf_counter()
        for _ in range(3):
            url = urlsplit(location)
            response = self.get(url.hostname or self.name, f"{url.path}?{url.query}" if url.query else url.path)
            location = response.headers.get("location", "")
        if response.status != 200:
            raise RuntimeError(f"{self.name}{path} answered {response.status} after a sign-in.")
        return seconds + time.perf_counter() - began

    def get(self, name: str, path: str) -> http.client.HTTPResponse:
        """Open a page without its redirects. Keep its cookies if it is on this browser's host."""
        connection = http.client.HTTPConnection(name)
        connection.sock = connect(self.host, name)
        cookies = {"cookie": self.cookie} if name == self.name and self.cookies else {}
        connection.request("GET", path, headers={"sec-fetch-mode": "navigate", "connection": "close", **cookies})
        answer = connection.getresponse()
        answer.read()
        if name == self.name:
            self.keep([(key.lower(), value) for key, value in answer.getheaders()])
        return answer

    def keep(self, headers: Headers) -> None:
        """Keep the cookies of a response."""
        for name, value in headers:
            if name == "set-cookie" and (match := _COOKIE.match(value)):
                self.cookies[match[1]] = match[2]
