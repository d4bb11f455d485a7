"""The parts of a response of HTTP/1 that wait for the end of its request."""

import pytest

from edge.ssh.data.responses import Response

OK = b"HTTP/1.1 200 OK\r\n"
LONG = OK + b"Content-Length: 4\r\n\r\n"
CHUNKED = OK + b"transfer-encoding: gzip, chunked\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
RESPONSE_413 = b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 4\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ([LONG + b"body"], [True]),
        ([LONG, b"body"], [False, True]),
        ([LONG, b"bo", b"dy"], [False, False, True]),
        ([OK + b"content-length: 0\r\n\r\n"], [True]),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], [True]),
        ([CHUNKED + b"4\r\nbody\r\n0\r\n\r\n"], [True]),
        ([CHUNKED, b"4\r\nbody\r\n", b"0\r\nsum: 1\r\n\r\n"], [False, False, True]),
        ([CHUNKED, b"10\r\n\r\n"], [False, False]),  # a chunk that begins with an empty line
        ([OK + b"\r\n", b"body"], [False, False]),
        ([CONTINUE, LONG, b"body"], [False, False, True]),
        ([CONTINUE + CONTINUE + LONG + b"body"], [True]),
        ([RESPONSE_413, b"body"], [True, True]),
        ([CONTINUE, RESPONSE_413], [False, True]),
        ([b"HTTP/1.1 303 See Other\r\n\r\n"], [True]),
        ([b"HTTP/1.0 500 Internal Server Error\r\n\r\n"], [True]),
        ([b"HTTP/1.1 413 Content", b" Too Large\r\n\r\n"], [True, True]),
        ([b"HTTP/1.1 2", b"00 OK\r\ncontent-length: 0\r\n\r\n"], [False, False]),
        ([b"SSH-2.0-x\r\n"], [False]),
    ],
)
def test_an_early_end_waits_and_all_of_a_response_other_than_2xx(data: list[bytes], expected: list[bool]) -> None:
    response = Response()
    assert [response.must_wait(chunk) for chunk in data] == expected
