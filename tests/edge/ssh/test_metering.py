"""What is counted of a tunnel's connections."""

import pytest

from chalicelib.model.tunnels import Usage
from edge.ssh.metering import Counted, Meter

GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
PUT = b"PUT /a HTTP/1.1\r\nexpect: 100-continue\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


class Observer:
    """The observer behind the counts."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []

    def asked(self, data: bytes) -> None:
        self.heard.append(data)

    def answered(self, data: bytes) -> None:
        self.heard.append(data)

    def closed(self) -> None:
        self.heard.append(b"closed")


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
        counted = Counted(meter, observer)
        for data in connection:
            is_answer = data.startswith((b"HTTP/", b"\0"))
            (counted.answered if is_answer else counted.asked)(data)
            sizes[is_answer] += len(data)
        counted.closed()
    assert meter.usage() == Usage(sizes[False], sizes[True], requests)
    assert observer.heard == [data for connection in connections for data in [*connection, b"closed"]]
