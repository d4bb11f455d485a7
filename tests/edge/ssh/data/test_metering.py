"""What is counted of a tunnel's connections."""

import pytest

from chalicelib.model.tunnels.tunnels import Traffic
from edge.ssh.data.metering import Meter, MeteredConnection

GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
FORWARDED = b"GET / HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 192.0.2.1\r\n\r\n"
OTHER = FORWARDED.replace(b"192.0.2.1", b"192.0.2.2")
LONG = FORWARDED.replace(b"\r\n\r\n", b"\r\ncontent-length: 4\r\n\r\n")
PUT = b"PUT /a HTTP/1.1\r\nexpect: 100-continue\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


class Observer:
    """The observer behind the counts."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []

    def on_request(self, data: bytes) -> None:
        self.chunks.append(data)

    def on_response(self, data: bytes) -> None:
        self.chunks.append(data)

    def on_close(self) -> None:
        self.chunks.append(b"closed")


@pytest.mark.parametrize(
    ("connections", "requests"),
    [
        ([], 0),
        ([[]], 0),
        ([[GET, ANSWER]], 1),
        ([[GET]], 1),
        ([[GET, ANSWER, GET, ANSWER, GET]], 3),
        ([[GET, ANSWER], [GET, ANSWER]], 2),
        ([[PUT, b"HTTP/1.1 100 Continue\r\n\r\n", b"the body", b"GET / HTTP/1.1\r\n", ANSWER]], 1),
        ([[b"POST /" + b"a" * 9_000, b" HTTP/1.1\r\n\r\n", ANSWER]], 1),
        ([[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\0\0\0", b"more", b"\0", b"yet more"]], 1),
    ],
)
def test_each_request_of_http_1_counts_and_each_connection_of_what_else_there_is(
    connections: list[list[bytes]], requests: int
) -> None:
    meter, observer = Meter(), Observer()
    sizes = {True: 0, False: 0}
    for connection in connections:
        metered = MeteredConnection(meter, observer)
        for data in connection:
            is_answer = data.startswith((b"HTTP/", b"\0"))
            (metered.on_response if is_answer else metered.on_request)(data)
            sizes[is_answer] += len(data)
        metered.on_close()
    assert meter.usage() == Traffic(sizes[False], sizes[True], requests)
    assert observer.chunks == [data for connection in connections for data in [*connection, b"closed"]]


@pytest.mark.parametrize(
    ("visitor", "requests", "address"),
    [
        ("", [], ""),
        ("", [GET], ""),
        ("", [FORWARDED], "192.0.2.1"),
        ("", [FORWARDED, ANSWER, OTHER], "192.0.2.2"),
        ("", [FORWARDED, OTHER], "192.0.2.1"),  # which is of the first one's body
        ("192.0.2.9", [], "192.0.2.9"),
        ("192.0.2.9", [FORWARDED], "192.0.2.9"),
    ],
)
def test_a_connection_is_whose_its_last_request_was_unless_that_is_known_before(
    visitor: str, requests: list[bytes], address: str
) -> None:
    connection = MeteredConnection(Meter(), Observer(), visitor)
    assert connection.has_request is False
    for data in requests:
        (connection.on_response if data == ANSWER else connection.on_request)(data)
    assert (connection.address, connection.has_request) == (address, bool(requests))


@pytest.mark.parametrize(
    ("requests", "is_owed"),
    [
        ([LONG], True),
        ([LONG, b"bo"], True),
        ([LONG, b"bo", b"dy"], False),
        ([LONG, ANSWER], True),
        ([LONG, ANSWER, b"body"], False),
        ([LONG, b"body", ANSWER, LONG], True),
        ([LONG.replace(b"x-forwarded-for", b"x-other")], False),  # bytes that are not of HTTP may look so
    ],
)
def test_the_body_of_a_request_is_followed(requests: list[bytes], is_owed: bool) -> None:
    connection = MeteredConnection(Meter(), Observer(), "192.0.2.9")
    for data in requests:
        (connection.on_response if data == ANSWER else connection.on_request)(data)
    assert connection.body.is_incomplete is is_owed


@pytest.mark.parametrize(
    ("before", "rests"),
    [(Traffic(1, 2, 3), True), (Traffic(1, 2, 9), True), (Traffic(0, 2, 3), False), (Traffic(1, 0, 3), False)],
)
def test_a_tunnel_rests_while_no_bytes_go_by(before: Traffic, rests: bool) -> None:
    assert Meter(1, 2, 3).has_same_bytes(before) is rests
