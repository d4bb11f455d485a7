"""The local server's HTTP manners on raw connections, beyond those that the contract tries through every transport."""

import json
import socket
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from threading import Barrier
from typing import Any

import pytest

from tests.conftest import Served
from tests.transports import VERSION, Answer, refusal

MEGABYTE = 1024 * 1024
NOT_HTTP = "This server cannot parse the request: "
UNFRAMED = "Send the whole body, with its length in the header 'Content-Length'."


@pytest.fixture
def address(served: Served) -> tuple[str, int]:
    host, _, port = served.base_url.removeprefix("http://").partition(":")
    return host, int(port)


@pytest.fixture
def wire(address: tuple[str, int]) -> Iterator[HTTPConnection]:
    """Yield one connection, which its owner must find open at the end."""
    connection = HTTPConnection(*address, timeout=20)
    connection.connect()
    sock = connection.sock
    yield connection
    assert connection.sock is sock
    connection.close()


@pytest.fixture
def headers(served: Served) -> dict[str, str]:
    return {"Authorization": f"Bearer {served.token}", "Content-Type": "application/json", **VERSION}


def ask(wire: HTTPConnection, method: str, path: str, headers: Mapping[str, str], body: Any = None) -> Answer:
    """Return one request on a connection that is open and stays so."""
    sock = wire.sock
    raw = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    wire.request(method, path, raw, dict(headers))
    answer = wire.getresponse()
    text = answer.read().decode()
    assert wire.sock is sock, "the connection was closed"
    return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, text)


def exchange(address: tuple[str, int], content: bytes) -> bytes:
    """Everything that comes back until the server closes the connection."""
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(content)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def read(raw: bytes) -> Answer:
    """Return the one answer in the bytes, which end with it."""
    head, _, body = raw.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = [line.split(": ", 1) for line in lines]
    return Answer(int(status.split()[1]), {name.lower(): value for name, value in headers}, body.decode())


def build_request(method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """Return a request as bytes, the last one of its connection."""
    lines = [f"{method} {path} HTTP/1.1", "Host: here", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@pytest.mark.parametrize("method", ["BREW", "x-amazon-apigateway-any-method"])
def test_a_method_that_http_does_not_have_is_refused_with_those_of_the_path(wire: HTTPConnection, method: str) -> None:
    answer = ask(wire, method, "/api_keys", {})
    assert answer.json == refusal(answer)
    assert (answer.status, answer.json["error_code"]) == (405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, POST"


def test_a_204_has_neither_a_body_nor_a_length(
    address: tuple[str, int], wire: HTTPConnection, headers: dict[str, str]
) -> None:
    path = f"/api_keys/{ask(wire, 'POST', '/api_keys', headers, {}).json['id']}"
    answer = read(exchange(address, build_request("DELETE", path, headers)))
    assert (answer.status, answer.text) == (204, "")
    of_each_response = {"cache-control", "operation-id", "strict-transport-security", "x-content-type-options"}
    assert answer.headers.keys() == {"server", "date", *of_each_response}


@pytest.mark.parametrize("path", ["//example.com/api_keys", "/%2e%2e/%00", "/nowhere?a=b", "*", "/[::1"])
def test_a_path_that_leads_nowhere_is_a_404(wire: HTTPConnection, headers: dict[str, str], path: str) -> None:
    answer = ask(wire, "GET", path, headers)
    assert answer.json == refusal(answer)
    assert (answer.status, answer.json["error_code"]) == (404, "no_such_route")


@pytest.mark.parametrize(
    ("expected", "body"), [({"Expect": "100-continue"}, b""), ({}, b"x" * 11 * MEGABYTE)], ids=["announced", "sent"]
)
def test_a_body_above_the_gateways_limit_is_a_413_and_ends_the_connection(
    address: tuple[str, int], headers: dict[str, str], expected: dict[str, str], body: bytes
) -> None:
    announced = {**headers, "Content-Length": str(11 * MEGABYTE), **expected}
    answer = read(exchange(address, build_request("POST", "/api_keys", announced, body)))
    assert answer.json == refusal(answer)
    assert (answer.status, answer.json["error_code"]) == (413, "payload_too_large")
    assert answer.json["msg"] == "The body is larger than 10485760 bytes."
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize(
    "framing",
    [
        {"Transfer-Encoding": "chunked"},
        {"Content-Length": "five"},
        {"Content-Length": "-5"},
        {"Content-Length": ""},
        {"Content-Length": "٥"},
        {"Transfer-Encoding": "chunked", "Content-Length": "5"},
    ],
)
def test_a_body_of_unknown_length_is_refused_and_ends_the_connection(
    address: tuple[str, int], headers: dict[str, str], framing: dict[str, str]
) -> None:
    answer = read(exchange(address, build_request("POST", "/api_keys", headers | framing, b"5\r\nhello\r\n0\r\n\r\n")))
    assert answer.json == refusal(answer)
    assert (answer.status, answer.json["error_code"], answer.json["msg"]) == (400, "invalid_request", UNFRAMED)
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"GARBAGE\r\n\r\n", "Bad request syntax"),
        (b"GET / SOAP/1.1\r\n\r\n", "Bad request version"),
        (b"GET / HTTP/3.0\r\n\r\n", "Invalid HTTP version"),
        (b"GET /two words HTTP/1.1\r\n\r\n", "Bad request syntax"),
        (b"POST /api_keys\r\n\r\n", "Bad HTTP/0.9 request type"),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", "Request-URI Too Long"),
        (b"GET / HTTP/1.1\r\nLong: " + b"x" * 70_000 + b"\r\n\r\n", "Line too long"),
        (b"GET / HTTP/1.1\r\n" + b"Many: x\r\n" * 200 + b"\r\n", "Too many headers"),
    ],
)
def test_what_is_not_http_gets_the_one_error_body_too(address: tuple[str, int], content: bytes, fault: str) -> None:
    answer = read(exchange(address, content))
    assert answer.json == refusal(answer)
    assert (answer.status, answer.json["error_code"]) == (400, "invalid_request")
    assert answer.json["msg"] == f"{NOT_HTTP}{fault}."


TWICE = "The header {} occurs twice".format
LINE = "Bad header line"
ASKED = {"Content-Length": "2"}


@pytest.mark.parametrize(
    ("framing", "fault"),
    [
        (b"Content-Length: 2\r\nContent-Length: 40\r\n", TWICE("Content-Length")),
        (b"Content-Length: 2\r\nContent-Length: 2\r\n", TWICE("Content-Length")),
        (b"Content-Length: 2\r\nTransfer-Encoding : chunked\r\n", LINE),
        (b"Content-Length : 2\r\n", LINE),
        (b"Content-Length: 2\r\nX: a\r\n Transfer-Encoding: chunked\r\n", LINE),
        (b"Content-Length: 2\r\nX: a\r\n\tfolded\r\n", LINE),
        (b"Content-Length: 2\r\nX: a\rTransfer-Encoding: chunked\r\n", LINE),
        (b"Content-Length: 2\nX: a\r\n", LINE),
        (b"Content-Length: 2\r\nX: a\0b\r\n", LINE),
        (b"Content-Length: 2\r\nno colon\r\n", LINE),
        (b"Content-Length: 2\r\n: no name\r\n", LINE),
        (b"Content-Length: 2\r\nHost: there\r\n", TWICE("Host")),
        (b"Content-Length: 2\r\nauthorization: Bearer another\r\n", TWICE("Authorization")),
        (b"Content-Length: 2\r\nService-Version: 0\r\n", TWICE("Service-Version")),
        (b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n", TWICE("Transfer-Encoding")),
    ],
)
def test_a_head_that_two_servers_could_read_differently_is_refused_with_all_behind_it(
    served: Served, address: tuple[str, int], headers: dict[str, str], framing: bytes, fault: str
) -> None:
    before = served.client().get("/api_keys").json
    first = build_request("POST", "/api_keys", headers).replace(b"Connection: close\r\n", framing) + b"{}"
    answer = read(exchange(address, first + build_request("POST", "/api_keys", {**headers, **ASKED}, b"{}")))
    assert answer.json == refusal(answer)
    assert (answer.status, answer.json["msg"]) == (400, f"{NOT_HTTP}{fault}.")
    assert answer.headers["connection"] == "close"
    assert served.client().get("/api_keys").json == before


@pytest.mark.parametrize(
    ("line", "host", "fault"),
    [
        (b"GET /openapi.json HTTP/1.1\r\n", b"", "The header Host is missing"),
        (b"GET /openapi.json HTTP/1.1\r\n", b"Host: a/b\r\n", "The header Host must be host or host:port"),
        (b"GET /openapi.json HTTP/1.1\r\n", b"Host:\r\n", "The header Host must be host or host:port"),
        (b"GET  /openapi.json HTTP/1.1\r\n", b"Host: here\r\n", "Bad request line"),
        (b"GET\t/openapi.json HTTP/1.1\r\n", b"Host: here\r\n", "Bad request line"),
        (b"GET /openapi.json HTTP/1.1\n", b"Host: here\r\n", "Bad request line"),
    ],
)
def test_a_request_without_one_host_or_in_another_form_is_refused(
    address: tuple[str, int], line: bytes, host: bytes, fault: str
) -> None:
    answer = read(exchange(address, line + host + b"\r\n"))
    assert (answer.status, answer.json["msg"]) == (400, f"{NOT_HTTP}{fault}.")
    assert answer.json == refusal(answer)


def test_an_older_client_may_leave_the_host_out(address: tuple[str, int]) -> None:
    assert exchange(address, b"GET /openapi.json HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_client_that_asks_before_it_sends_its_body_is_told_to_go_on(
    address: tuple[str, int], headers: dict[str, str]
) -> None:
    request = build_request("POST", "/api_keys", {**headers, "Content-Length": "2", "Expect": "100-continue"})
    with socket.create_connection(address, timeout=5) as connection:
        connection.sendall(request)
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"{}")
        assert read(b"".join(iter(lambda: connection.recv(65536), b""))).status == 201


def test_connections_that_arrive_at_once_are_all_answered(address: tuple[str, int], headers: dict[str, str]) -> None:
    together = Barrier(32)

    def connect_and_ask(_: int) -> int:
        together.wait(timeout=20)
        return read(exchange(address, build_request("GET", "/api_keys?limit=1", headers))).status

    with ThreadPoolExecutor(32) as clients:
        assert list(clients.map(connect_and_ask, range(32))) == [200] * 32


def test_an_idle_connection_keeps_nobody_else_waiting(address: tuple[str, int], headers: dict[str, str]) -> None:
    idle = [socket.create_connection(address) for _ in range(16)]
    assert read(exchange(address, build_request("GET", "/api_keys?limit=1", headers))).status == 200
    for connection in idle:
        connection.close()


@pytest.mark.parametrize(
    ("extra_headers", "base_url"),
    [
        ({"Host": "localhost:8443"}, "http://localhost:8443"),
        ({"Host": "api.example.test", "X-Forwarded-Proto": "https"}, "https://api.example.test"),
    ],
)
def test_addresses_begin_with_the_host_that_was_asked(
    wire: HTTPConnection, headers: dict[str, str], extra_headers: dict[str, str], base_url: str
) -> None:
    headers = headers | extra_headers
    authorities = [ask(wire, "POST", "/ssh_certificate_authorities", headers, {}).json for _ in range(2)]
    page = ask(wire, "GET", "/ssh_certificate_authorities?limit=1", headers).json
    paths = [f"/ssh_certificate_authorities/{authority['id']}" for authority in authorities]
    assert [authority["uri"] for authority in authorities] == [base_url + path for path in paths]
    assert page == {
        "ssh_certificate_authorities": [authorities[1]],
        "uri": f"{base_url}/ssh_certificate_authorities",
        "next_page_uri": f"{base_url}/ssh_certificate_authorities?before_id={authorities[1]['id']}&limit=1",
    }
    assert [ask(wire, "DELETE", path, headers).status for path in paths] == [204, 204]


def test_an_address_that_is_asked_for_whole_names_the_host(address: tuple[str, int], headers: dict[str, str]) -> None:
    for target, host in (("http://there:1/api_keys?limit=1", "there:1"), ("HTTPS://there/api_keys", "there")):
        answer = read(exchange(address, build_request("GET", target, headers)))
        assert answer.status == 200, answer.text
        assert answer.json["keys"][0]["uri"].startswith(f"http://{host}/api_keys/ak_")
    for target in ("http://ada@there/api_keys", "http:///api_keys"):
        refusal = read(exchange(address, build_request("GET", target, headers)))
        assert (refusal.status, refusal.json["details"]["Host"]) == (400, "must be host or host:port")
