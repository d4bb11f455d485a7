"""The PROXY protocol as a table; HAProxy's own words are the judge of the bytes."""

import pytest

from edge.link import proxy_protocol
from edge.link.proxy_protocol import Header

SIGNATURE = "0d0a0d0a000d0a515549540a"
TCP4 = bytes.fromhex(SIGNATURE + "2111000c" + "c0000209" + "7f000001" + "c001" + "01bb")
TCP6 = bytes.fromhex(SIGNATURE + "21210024" + "20010db8" + "00" * 11 + "09" + "00" * 15 + "01" + "c001" + "01bb")
LOCAL = bytes.fromhex(SIGNATURE + "20000000")
FOUR = Header(("192.0.2.9", 49153), ("127.0.0.1", 443))
SIX = Header(("2001:db8::9", 49153), ("::1", 443))
HEADERS = [(TCP4, FOUR), (TCP6, SIX), (LOCAL, Header())]


@pytest.mark.parametrize(("data", "header"), HEADERS)
def test_a_header_is_read_and_written(data: bytes, header: Header) -> None:
    assert proxy_protocol.read(data) == proxy_protocol.read(data + b"\x16\x03") == (header, len(data))
    assert header.encoded() == data


@pytest.mark.parametrize(("data", "_header"), HEADERS)
def test_more_is_waited_for_while_it_may_be_one(data: bytes, _header: Header) -> None:
    assert {proxy_protocol.read(data[:length]) for length in range(len(data))} == {None}


@pytest.mark.parametrize("data", [b"\x16\x03\x01", b"GET / HTTP/1.1", b"\r\n\r\nA", b"PROXY TCP4 192.0.2.9"])
def test_other_bytes_are_no_header(data: bytes) -> None:
    assert proxy_protocol.read(data) == (None, 0)


def test_what_follows_the_addresses_is_passed_over() -> None:
    more = bytes.fromhex(SIGNATURE + "21110013") + TCP4[16:] + bytes.fromhex("04000401020304")
    assert proxy_protocol.read(more) == (FOUR, len(more))
    assert proxy_protocol.read(bytes.fromhex(SIGNATURE + "20110005") + b"12345") == (Header(), 21)
    longest = bytes.fromhex(SIGNATURE + "21110400") + TCP4[16:] + bytes(1012)
    assert proxy_protocol.read(longest) == (FOUR, len(longest))


def test_who_does_not_say_both_addresses_speaks_for_itself() -> None:
    assert Header(FOUR.source).encoded() == Header(destination=FOUR.destination).encoded() == LOCAL


@pytest.mark.parametrize(
    "rest",
    [
        "1111000c" + "00" * 12,  # version 1
        "3111000c" + "00" * 12,
        "2211000c" + "00" * 12,  # a command that there is not
        "2112000c" + "00" * 12,  # UDP
        "21310048" + "00" * 72,  # a socket of Unix
        "21000000",
        "2111000b" + "00" * 11,  # too short for its family
        "21210023" + "00" * 35,
        "21110401" + "00" * 1025,  # too long
        "2111ffff",
    ],
)
def test_other_headers_are_refused(rest: str) -> None:
    with pytest.raises(ValueError, match="must "):
        proxy_protocol.read(bytes.fromhex(SIGNATURE + rest))


@pytest.mark.parametrize(
    ("values", "tunnel", "is_private"),
    [
        (b"\xe0\x00\x04tn_1", "tn_1", False),
        (b"\x04\x00\x02??\xe0\x00\x04tn_1\x04\x00\x01?", "tn_1", False),
        (b"\x04\x00\x04tn_1", "", False),
        (b"\xe0\x00\x09tn_1", "tn_1", False),
        (b"\xe0\x00", "", False),
        (b"\xe0\x00\x00", "", False),
        (b"\xe2\x00\x04tn_1", "", False),
        (b"\xe0\x00\x01\xff", "\ufffd", False),
        (b"\xe1\x00\x01\x00", "", True),
        (b"\x04\x00\x04\xe1\x00\x01\x00", "", False),
        (b"\xe0\x00\x04tn_1\xe1\x00\x01\x00", "tn_1", True),
    ],
)
def test_the_tunnel_and_whether_it_is_private_are_read_behind_the_addresses(
    values: bytes, tunnel: str, is_private: bool
) -> None:
    plain = Header(("192.0.2.9", 49153), ("192.0.2.1", 443)).encoded()
    encoded = plain[:14] + (12 + len(values)).to_bytes(2) + plain[16:] + values
    header, length = proxy_protocol.read(encoded + b"hello") or (None, 0)
    assert header == Header(("192.0.2.9", 49153), ("192.0.2.1", 443), tunnel, is_private)
    assert header
    assert (length, header.encoded()) == (len(encoded), plain)


@pytest.mark.parametrize(
    ("line", "header"),
    [
        ("PROXY TCP4 192.0.2.9 127.0.0.1 49153 443", FOUR),
        ("PROXY TCP6 2001:db8::9 ::1 49153 443", SIX),
        ("PROXY UNKNOWN", Header()),
        ("PROXY UNKNOWN ffff::1 ffff::2 65535 65535", Header()),
    ],
)
def test_a_header_of_version_1_is_a_line(line: str, header: Header) -> None:
    data = f"{line}\r\n".encode()
    assert proxy_protocol.read_any(data) == proxy_protocol.read_any(data + b"SSH-2.0") == (header, len(data))
    assert {proxy_protocol.read_any(data[:length]) for length in range(len(data))} == {None}


@pytest.mark.parametrize(("data", "header"), HEADERS)
def test_a_header_of_version_2_is_read_beside_version_1(data: bytes, header: Header) -> None:
    assert proxy_protocol.read_any(data) == (header, len(data))
    assert proxy_protocol.read_any(b"SSH-2.0") == (None, 0)


@pytest.mark.parametrize(
    "line",
    [
        "PROXY TCP4 2001:db8::9 ::1 49153 443",  # of the other family
        "PROXY TCP6 192.0.2.9 ::1 49153 443",
        "PROXY TCP4 192.0.2.9 127.0.0.1 49153",
        "PROXY TCP4 192.0.2.9 127.0.0.1 49153 65536",
        "PROXY TCP4 192.0.2.9 127.0.0.1 -1 443",
        "PROXY TCP4 192.0.2.9  127.0.0.1 49153 443",
        "PROXY TCP4 host 127.0.0.1 49153 443",
        "PROXY UDP4 192.0.2.9 127.0.0.1 49153 443",
        "PROXY TCP4 192.0.2.9 127.0.0.1 49153 443" + " " * 80,
    ],
)
def test_other_lines_are_refused(line: str) -> None:
    with pytest.raises(ValueError, match="must"):
        proxy_protocol.read_any(f"{line}\r\n".encode())
