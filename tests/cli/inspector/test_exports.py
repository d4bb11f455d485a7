"""What other programs and people read of a recorded exchange: masks, bodies, curl, HAR, and edited requests."""

import gzip
import subprocess

import pytest

from tests.cli.inspector.streams import GET, OK, In, Out, record
from tunnel_edge.inspector import exports, replay, texts
from tunnel_edge.inspector.exchanges import Exchange
from tunnel_edge.inspector.replay import ReplayRefused

URL = "https://demo.example.com"


def exchange(request: bytes = GET, response: bytes = OK) -> Exchange:
    (only,) = record([In(request), Out(response)])
    return only


def post(body: bytes, *headers: bytes) -> bytes:
    lines = b"".join(header + b"\r\n" for header in headers)
    return b"POST /p?q=%%20 HTTP/1.1\r\nhost: x\r\n%bcontent-length: %d\r\n\r\n%b" % (lines, len(body), body)


def arguments(command: str) -> tuple[list[bytes], bytes]:
    """Return the arguments and standard input that a shell gives to curl."""
    script = f"""curl() {{ printf '%s\\0' "$@"; printf 'END\\0'; case "$*" in *@-*) cat;; esac; }}; {command}"""
    output = subprocess.run(["sh", "-c", script], capture_output=True, check=True).stdout
    words, _, stdin = output.partition(b"\0END\0")
    return words.split(b"\0"), stdin


def test_secrets_are_masked_unless_they_are_requested() -> None:
    names = (b"Authorization", b"Cookie", b"Proxy-Authorization", b"X-Api-Key")
    secret_exchange = exchange(
        post(b"", *(name + b": s3cret" for name in names)), OK.replace(b"OK\r\n", b"OK\r\nset-cookie: s3cret\r\n")
    )
    for with_secrets, counts in ((False, [0, 0, 0]), (True, [4, 5, 5])):
        forms = [
            exports.as_curl(secret_exchange, URL, with_secrets=with_secrets),
            str(exports.as_har([secret_exchange], URL, with_secrets=with_secrets)),
            str(exports.describe(secret_exchange, with_secrets=with_secrets)),
        ]
        assert [form.count("s3cret") for form in forms] == counts


@pytest.mark.parametrize(
    "body", [b"", b"a=b", b"'; touch /tmp/x; '", b'$(id) `id` \\ " !', b"@/etc/passwd", b"\0\1\xff", b"a\nb"]
)
def test_a_curl_command_quotes_every_value(body: bytes) -> None:
    post_exchange = exchange(post(body, b"X-Odd: it's $HOME", b"X-Empty:"))
    words, stdin = arguments(exports.as_curl(post_exchange, URL))
    assert words[:5] == [b"--globoff", b"--path-as-is", b"-X", b"POST", b"-H"]
    assert b"X-Odd: it's $HOME" in words
    assert b"X-Empty;" in words
    assert words[-1] == b"https://demo.example.com/p?q=%20"
    data = words[words.index(b"--data-binary") + 1] if body else b""
    assert (stdin if data == b"@-" else data) == body


def test_a_har_file_has_the_request_and_the_response() -> None:
    (entry,) = exports.as_har([exchange(post(b"abc"))], URL)["log"]["entries"]
    assert (entry["request"]["method"], entry["request"]["url"]) == ("POST", "https://demo.example.com/p?q=%20")
    assert entry["request"]["queryString"] == [{"name": "q", "value": " "}]
    assert entry["request"]["postData"] == {"mimeType": "application/octet-stream", "text": "abc"}
    assert (entry["response"]["status"], entry["response"]["content"]["text"]) == (200, "ok")


def test_bodies_are_shown_without_chunks_and_compression() -> None:
    packed = gzip.compress(b"hello")
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n"
    for response in (
        head + b"content-length: %d\r\n\r\n%b" % (len(packed), packed),
        head + b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(packed), packed),
    ):
        recorded_response = exchange(response=response).response
        assert recorded_response
        assert texts.decode_body(recorded_response) == b"hello"


def test_a_small_body_that_unpacks_to_a_large_one_is_cut() -> None:
    packed = gzip.compress(b"\0" * (64 << 20))
    recorded_response = exchange(
        response=b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n%b" % (len(packed), packed)
    ).response
    assert recorded_response
    assert len(texts.decode_body(recorded_response)) == 256 * 1024


def test_binary_is_hex_and_a_cut_character_is_left_out() -> None:
    assert texts.as_text(b"a\0") is texts.as_text(b"\xff") is None
    assert texts.as_text("añé".encode()[:-1]) == "añ"
    assert texts.as_hex(b"\0ab") == f"000000  {'00 61 62':<47}  .ab"


def test_a_replay_is_marked_once() -> None:
    marked = replay.mark(GET)
    assert marked == b"GET /a?b=1 HTTP/1.1\r\nX-Te-Replay: 1\r\nHost: x\r\n\r\n"
    assert replay.mark(marked) == marked


def test_a_request_that_was_cut_or_is_no_request_is_not_replayed() -> None:
    for stream, reason in (
        (
            [In(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 300000\r\n\r\n" + b"x" * 300000), Out(OK)],
            "were recorded",
        ),
        ([In(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\n"), Out(OK)], "not recorded completely"),
        ([In(b"nonsense\r\n\r\n")], "only HTTP/1.1"),
    ):
        (recorded_exchange,) = record(stream)  # type: ignore[arg-type]
        with pytest.raises(ReplayRefused, match=reason):
            replay.raw_request(recorded_exchange)


@pytest.mark.parametrize("body", [b'{"a": 1}\n', b"--x\r\n\r\nmulti\r\npart\r\n--x--\r\n", b""])
def test_a_request_that_was_not_changed_in_the_editor_is_the_same(body: bytes) -> None:
    recorded_exchange = exchange(post(body))
    assert replay.from_text(replay.to_text(recorded_exchange), recorded_exchange) == post(body)


def test_an_edited_body_has_its_own_length_and_no_chunks() -> None:
    chunked = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    recorded_exchange = exchange(chunked)
    text = replay.to_text(recorded_exchange)
    assert text == "POST / HTTP/1.1\nhost: x\ncontent-length: 3\n\nabc"
    assert (
        replay.from_text(text + "d", recorded_exchange)
        == b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nabcd"
    )
    with pytest.raises(ReplayRefused, match="An empty line must follow the headers"):
        replay.from_text("GET / HTTP/1.1", recorded_exchange)


def test_differences_are_lines_and_bounded() -> None:
    other_response = OK.replace(b"\r\n\r\nok", b"\r\n\r\nno")
    assert texts.differences(exchange(), exchange()) == []
    assert [line for line in texts.differences(exchange(), exchange(response=other_response)) if line[0] != " "] == [
        "- ok",
        "+ no",
    ]
    long_response = b"HTTP/1.1 200 OK\r\ncontent-length: 200000\r\n\r\n" + b"a\n" * 100_000
    assert texts.differences(exchange(), exchange(response=long_response)) == [
        "  The responses differ, and have too many lines to compare."
    ]
