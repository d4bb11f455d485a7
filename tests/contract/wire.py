"""What the suite adds to a transport: one connection that must last, and a memory of what was made, to unmake it."""

from collections.abc import Mapping
from http.client import HTTPConnection, HTTPSConnection
from urllib.parse import urlsplit

from tests.transports import Answer, Transport, plain


class Wire:
    """One connection to a URL for all requests: an answer that ends it, or leaves bytes on it, is a failure.

    Paths go out as they are written, dot segments and all, which no HTTP library for people does.
    """

    def __init__(self, url: str, base_url: str) -> None:
        self.base_url = base_url  # what uris begin with
        address = urlsplit(url)
        kind = HTTPSConnection if address.scheme == "https" else HTTPConnection
        self._connection = kind(address.netloc, timeout=60)
        self._connection.connect()
        self._path = address.path

    def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        socket = self._connection.sock
        self._connection.request(method, self._path + path, body or None, dict(headers))
        answer = self._connection.getresponse()
        content = answer.read()
        assert self._connection.sock is socket, f"the connection was closed after {method} {path[:80]}"
        received = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, received, plain(received, content).decode(errors="replace"), content)


class Tidy:
    """A transport that remembers what was made through it, and can unmake what is left."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._headers_by_path: dict[str, Mapping[str, str]] = {}

    @property
    def base_url(self) -> str:
        return str(self._transport.base_url)

    def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        answer = self._transport.send(method, path, headers, body)
        if answer.status == 201:
            self._headers_by_path[f"{path}/{answer.json['id']}"] = headers
        elif (method, answer.status) == ("PUT", 200):
            self._headers_by_path[path] = headers
        elif (method, answer.status) == ("DELETE", 204):
            self._headers_by_path.pop(path, None)
        return answer

    def unmake(self) -> None:
        """Delete what was made and not deleted, the newest first: it may stand on what is older."""
        for path, headers in reversed(self._headers_by_path.items()):
            answer = self._transport.send("DELETE", path, headers, b"")
            assert answer.status == 204, answer.text
