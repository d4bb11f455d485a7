"""What is recorded of the bytes of a connection, as tables of byte streams."""

import pytest

from tests.cli.inspector.streams import (
    CHUNKED,
    GET,
    HEAD,
    OK,
    OK_CHUNKED,
    POST,
    PREFACE,
    SWITCH,
    UPGRADE,
    In,
    Out,
    record,
)
from tunnel_edge.inspector.exchanges import Exchange, Journal
from tunnel_edge.inspector.record import Recorder


def summary(exchange: Exchange) -> tuple[str, bytes, str, bytes]:
    """Return the target, request body, status and response body of a complete exchange."""
    request, response = exchange.request, exchange.response
    assert request
    assert response
    assert request.is_complete
    assert response.is_complete
    assert not exchange.is_stream
    assert not exchange.note
    return request.start[1], bytes(request.body), response.start[1], bytes(response.body)


@pytest.mark.parametrize("steps", [0, 1, 1 << 20])
@pytest.mark.parametrize("split", [1, 2, 7, 1 << 20])
@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        ([In(GET), Out(OK)], [("/a?b=1", b"", "200", b"ok")]),
        ([In(GET), Out(OK_CHUNKED)], [("/a?b=1", b"", "200", b"2\r\nok\r\n0\r\n\r\n")]),
        ([In(POST), Out(OK)], [("/p", b"abc", "200", b"ok")]),
        ([In(CHUNKED), Out(OK)], [("/c", b"3\r\nabc\r\n0\r\nt: 1\r\n\r\n", "200", b"ok")]),
        (
            [In(GET + POST + GET), Out(OK + OK_CHUNKED + OK)],
            [
                ("/a?b=1", b"", "200", b"ok"),
                ("/p", b"abc", "200", b"2\r\nok\r\n0\r\n\r\n"),
                ("/a?b=1", b"", "200", b"ok"),
            ],
        ),
        (
            [In(HEAD + GET), Out(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n" + OK)],
            [("/h", b"", "200", b""), ("/a?b=1", b"", "200", b"ok")],
        ),
        (
            [
                In(GET + GET),
                Out(b"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 304 Not Modified\r\ncontent-length: 7\r\n\r\n"),
            ],
            [("/a?b=1", b"", "204", b""), ("/a?b=1", b"", "304", b"")],
        ),
        ([In(GET), Out(b"HTTP/1.1 200 OK\r\n\r\nuntil the end"), Out(b"")], [("/a?b=1", b"", "200", b"until the end")]),
        ([In(GET), Out(b"HTTP/1.0 200 OK\r\n\r\nold"), Out(b"")], [("/a?b=1", b"", "200", b"old")]),
        ([In(b"GET /old HTTP/1.0\r\n\r\n"), Out(OK)], [("/old", b"", "200", b"ok")]),
        (
            [In(UPGRADE + GET), Out(OK + OK)],
            [("/ws", b"", "200", b"ok"), ("/a?b=1", b"", "200", b"ok")],
        ),
        (
            [In(POST[:-1]), Out(OK), In(b"c"), In(GET), Out(OK)],
            [("/p", b"abc", "200", b"ok"), ("/a?b=1", b"", "200", b"ok")],
        ),
        ([In(GET), In(b""), Out(OK)], [("/a?b=1", b"", "200", b"ok")]),
    ],
)
def test_exchanges_are_recorded_whatever_the_pieces(
    stream: list[In | Out], expected: list[tuple[str, bytes, str, bytes]], split: int, steps: int
) -> None:
    assert [summary(exchange) for exchange in record(stream, split=split, steps=steps)] == expected


def test_heads_are_recorded_as_they_were_sent() -> None:
    head = b"GET /a HTTP/1.1\r\nHoSt: x\r\nX-Forwarded-For: 192.0.2.9\r\nx-a:  b \r\n\r\n"
    (exchange,) = record([In(head), Out(OK)])
    assert exchange.request
    assert exchange.request.head == head
    assert exchange.request.headers == (("HoSt", "x"), ("X-Forwarded-For", "192.0.2.9"), ("x-a", "b"))
    assert (exchange.client, exchange.at, exchange.answered_at, exchange.ended_at) == ("192.0.2.9", 0, 1, 1)


def test_informational_responses_are_listed() -> None:
    expecting = POST.replace(b"host: x", b"host: x\r\nexpect: 100-continue")
    stream: list[In | Out] = [In(expecting[:-3]), Out(b"HTTP/1.1 100 Continue\r\n\r\n"), In(b"abc"), Out(OK)]
    (exchange,) = record(stream)
    assert summary(exchange) == ("/p", b"abc", "200", b"ok")
    assert exchange.informational == [100]
    assert exchange.response
    assert exchange.response.head == OK[:-2]


@pytest.mark.parametrize("split", [1, 1 << 20])
@pytest.mark.parametrize(
    ("stream", "received", "sent", "note"),
    [
        ([In(UPGRADE), Out(SWITCH + b"12"), In(b"345")], 3, 2, ""),
        ([In(UPGRADE + b"early"), Out(SWITCH)], 5, 0, ""),
        ([In(PREFACE), Out(b"\0\0\0")], len(PREFACE), 3, "not HTTP/1.1: "),
        ([In(b"\x16\x03\x01\0\1\r\n\r\n"), Out(b"x")], 9, 1, "not HTTP/1.1: "),
        ([Out(b"SSH-2.0-x\r\n"), In(b"SSH-2.0-y\r\n")], 11, 11, "not HTTP/1.1: the server sent data without a request"),
        ([In(b"GET / HTTP/1.1\r\nbad header\r\n\r\n")], 30, 0, "not HTTP/1.1: "),
    ],
)
def test_what_is_not_http_is_a_connection_with_byte_counts(
    stream: list[In | Out], received: int, sent: int, note: str, split: int
) -> None:
    (exchange,) = record(stream, split=split)
    assert (exchange.is_stream, exchange.received, exchange.sent) == (True, received, sent)
    assert exchange.note.startswith(note)
    assert bool(exchange.note) == bool(note)


@pytest.mark.parametrize(
    ("stream", "note"),
    [
        ([In(GET)], "no response"),
        ([In(GET), Out(b"")], "no response"),
        ([In(GET), Out(OK[:-1]), Out(b"")], "the response is incomplete"),
        ([In(GET), Out(OK[:-1])], "the response is incomplete"),
        ([In(POST[:-1]), In(b"")], "the request is incomplete"),
    ],
)
def test_what_is_missing_is_said(stream: list[In | Out], note: str) -> None:
    (exchange,) = record(stream)
    assert (exchange.is_stream, exchange.note, exchange.ended_at) == (False, note, len(stream))


def test_a_malformed_response_ends_the_reading_of_its_connection() -> None:
    first, second = record([In(GET + GET), Out(OK + b"nonsense\r\n\r\n"), In(GET)])
    assert summary(first) == ("/a?b=1", b"", "200", b"ok")
    assert (second.is_stream, second.received, second.sent) == (True, len(GET), 12)


def large(size: int) -> list[In | Out]:
    head = f"HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n".encode()
    return [In(GET), Out(head), *[Out(b"x" * 65536)] * (size // 65536)]


def test_a_body_is_recorded_up_to_its_limit() -> None:
    (exchange,) = record(large(1 << 20))
    assert exchange.response
    assert (len(exchange.response.body), exchange.response.size) == (256 * 1024, 1 << 20)
    assert exchange.response.is_cut
    assert exchange.response.is_complete


def test_the_oldest_exchanges_make_room() -> None:
    by_number, by_memory = Journal(max_exchanges=3), Journal(max_memory=1 << 20)
    for _ in range(10):
        record([In(GET), Out(OK)], by_number)
        record(large(1 << 18), by_memory)
    assert [exchange.id for exchange in by_number.newest_first()] == [10, 9, 8]
    assert [exchange.id for exchange in by_memory.newest_first()] == [10, 9, 8]
    assert by_memory.memory <= 1 << 20
    by_memory.clear()
    assert (by_memory.memory, [*by_memory.newest_first()]) == (0, [])


def test_an_exchange_that_made_room_while_it_goes_on_stores_nothing_more() -> None:
    journal = Journal(max_exchanges=1)
    recorder = Recorder(journal)
    for part in large(1 << 17)[:-1]:
        (recorder.on_request if isinstance(part, In) else recorder.on_response)(part.data, 0)
        while recorder.step():
            pass
    (first,) = journal.newest_first()
    record([In(GET), Out(OK)], journal)
    size = journal.memory
    recorder.on_response(b"x" * 65536, 1)
    while recorder.step():
        pass
    assert first.response
    assert (bytes(first.response.body), first.response.size) == (b"", 1 << 17)
    assert journal.memory == size < 10_000


def test_a_connection_that_is_faster_than_the_recorder_is_counted() -> None:
    journal = Journal()
    recorder = Recorder(journal)
    recorder.on_request(GET + GET + GET, 0)
    while recorder.step():
        pass
    recorder.on_response(OK_CHUNKED[:-5], 1)
    for _ in range(200):
        recorder.on_response(b"x" * 65536, 2)
    other, waiting, first = journal.newest_first()
    assert (first.is_stream, first.note, first.received) == (True, "the data came too fast to be recorded", 0)
    assert first.sent == len(OK_CHUNKED[:-5]) + 200 * 65536
    assert [(exchange.is_stream, exchange.note, exchange.ended_at) for exchange in (waiting, other)] == [
        (False, first.note, 2)
    ] * 2
    recorder.close(3)
    assert first.ended_at == 3


def test_a_body_with_a_length_is_never_too_fast() -> None:
    journal = Journal()
    recorder = Recorder(journal)
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (200 * 65536)
    recorder.on_request(GET + GET, 0)
    recorder.on_response(head, 0)
    while recorder.step():
        pass
    for _ in range(199):
        recorder.on_response(b"x" * 65536, 1)
    recorder.on_response(b"x" * 65536 + OK[:9], 2)
    recorder.on_response(OK[9:], 3)
    while recorder.step():
        pass
    second, first = journal.newest_first()
    assert first.response
    assert (first.is_stream, first.ended_at, first.response.size) == (False, 2, 200 * 65536)
    assert summary(second) == ("/a?b=1", b"", "200", b"ok")


def test_a_response_may_arrive_before_the_request_after_it_was_read() -> None:
    journal = Journal()
    recorder = Recorder(journal)
    recorder.on_request(GET, 0)
    recorder.on_response(OK[:-1], 0)
    while recorder.step():
        pass
    recorder.on_request(POST, 1)
    recorder.on_response(OK[-1:] + OK, 2)
    while recorder.step():
        pass
    assert [summary(exchange)[0] for exchange in journal.newest_first()] == ["/p", "/a?b=1"]
