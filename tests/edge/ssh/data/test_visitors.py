"""Whose a request is, who gives way when channels are scarce, and which bodies come too slowly."""

import pytest

from edge.ssh.data.visitors import Body, choose_eviction, get_visitor, parse_address

LONG = b"PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: 1000\r\nx-forwarded-for: 192.0.2.1\r\n\r\n"
CHUNKED = b"PUT / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("head", "visitor"),
    [
        (LONG, "192.0.2.1/32"),
        (LONG.replace(b"192.0.2.1", b"2001:db8:1:2:3::4"), "2001:db8:1:2::/64"),
        (LONG.replace(b"192.0.2.1", b"::ffff:192.0.2.1"), "192.0.2.1/32"),
        (LONG.replace(b"host: a", b"not-x-forwarded-for: 192.0.2.9"), "192.0.2.1/32"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ""),
        (b"", ""),
    ],
)
def test_a_visitor_is_an_address_or_a_network_of_ipv6(head: bytes, visitor: str) -> None:
    assert get_visitor(parse_address(head)) == visitor


@pytest.mark.parametrize(
    ("counts", "newcomer", "expected"),
    [
        ({"a": 256}, "b", "a"),
        ({"a": 256}, "a", None),
        ({"a": 200, "b": 56}, "b", "a"),
        ({"a": 200, "b": 56}, "a", None),
        ({"a": 128, "b": 128}, "b", None),
        ({"a": 129, "b": 127}, "b", "a"),
        ({"a": 128, "b": 127}, "b", None),
        ({"a": 1, "b": 1}, "c", None),
        ({"a": 2, "b": 1}, "c", "a"),
        ({"": 256}, "b", ""),
    ],
)
def test_who_has_most_gives_way_to_who_has_less(counts: dict[str, int], newcomer: str, expected: str | None) -> None:
    assert choose_eviction(counts, newcomer) == expected


@pytest.mark.parametrize(
    ("requests", "answers", "is_owed"),
    [
        ([GET], [], False),
        ([LONG], [], True),
        ([LONG, b"x" * 999], [], True),
        ([LONG, b"x" * 1000], [], False),
        ([LONG + b"x" * 1000], [], False),
        ([LONG], [b"HTTP/1.1 100 Continue\r\n\r\n"], True),
        ([LONG], [ANSWER], True),
        ([CHUNKED], [], True),
        ([CHUNKED, b"3\r\nabc\r\n"], [], True),
        ([CHUNKED, b"3\r\nabc\r\n0\r\n\r\n"], [], False),
        ([CHUNKED, b"3\r\nabc\r\n", b"0\r\n\r\n"], [], False),
        ([CHUNKED, b"3\r\nabc\r\n0\r\nmd5: 1\r\n\r\n"], [], False),
        ([CHUNKED + b"0\r\n\r\n"], [], False),
        ([CHUNKED, b"10\r\n\r\n"], [], True),  # a chunk that begins with an empty line
        ([GET.replace(b"host: a", b"host: chunked")], [], False),
        ([LONG, b"x" * 1001], [], False),
    ],
)
def test_a_body_is_owed_until_it_is_complete(requests: list[bytes], answers: list[bytes], is_owed: bool) -> None:
    body = Body()
    body.begin(requests[0])
    for data in requests[1:]:
        body.add(data)
    for data in answers:
        body.on_response(data)
    assert body.is_incomplete is is_owed


def test_a_body_is_slow_for_as_long_as_too_little_comes_that_somebody_reads() -> None:
    body = Body()
    body.begin(LONG)
    assert [body.count_slow_seconds(5, 100) for _ in range(3)] == [5, 10, 15]
    body.reset_rate()
    assert body.count_slow_seconds(5, 100) == 5
    body.add(b"x" * 500)
    assert body.count_slow_seconds(5, 100) == 0
    body.add(b"x" * 499)
    assert body.count_slow_seconds(5, 100) == 5
    body.add(b"x")
    assert body.count_slow_seconds(5, 100) == 0
    body.begin(LONG)
    assert body.count_slow_seconds(5, 100) == 5
    body.begin(LONG)
    assert body.count_slow_seconds(5, 100) == 5  # another one's time
