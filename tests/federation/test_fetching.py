"""GET of documents from hostile servers: bounds of time and bytes, redirects, and addresses that are not public."""

import json
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chalicelib.federation.fetching import Fetcher, FetchFailed
from tests.federation import certificates
from tests.federation.issuer_server import Answer, IssuerServer, be_silent, raw, response, serve_issuer


@pytest.fixture
def server() -> Iterator[IssuerServer]:
    with serve_issuer() as server:
        yield server


def fetcher(server: IssuerServer, seconds: float = 3.0) -> Fetcher:
    return Fetcher(lambda port: port == server.port, seconds=seconds)


def expect_refusal(reason: str) -> Any:
    return pytest.raises(FetchFailed, match=f"^{re.escape(reason)}$")


def drip(connection: socket.socket) -> None:
    """Send headers slowly and for ever."""
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    with suppress(OSError):
        while True:
            connection.sendall(b"a: b\r\n")
            time.sleep(0.05)


REFUSED: dict[str, tuple[Answer, str]] = {
    "redirect": (response("302 Found", b"{}", "Location: /keys"), "status 302"),
    "redirect of a GET": (response("303 See Other", b"{}", "Location: http://127.0.0.2/"), "status 303"),
    "unavailable": (response("503 Service Unavailable"), "status 503"),
    "no content": (raw(b"HTTP/1.1 204 No Content\r\n\r\n"), "status 204"),
    "10 MB": (response("200 OK", b'"' + b"a" * 10_000_000 + b'"'), "too large"),
    "10 MB without a length": (raw(b'HTTP/1.1 200 OK\r\n\r\n"' + b"a" * 10_000_000), "too large"),
    "many headers": (raw(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 100_000), "HTTPException"),
    "long line": (raw(b"HTTP/1.1 200 " + b"a" * 300_000), "LineTooLong"),
    "endless 100": (raw(b"HTTP/1.1 100 Continue\r\n\r\n" * 100_000), "too large"),
    "no HTTP": (raw(b"SSH-2.0-OpenSSH\r\n"), "BadStatusLine"),
    "nothing": (raw(b""), "RemoteDisconnected"),
    "shorter than its length": (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}"), "IncompleteRead"),
    "deep": (response("200 OK", b"[" * 200_000), "the response of the issuer must be JSON"),
    "compressed": (
        response("200 OK", b"\x1f\x8b", "Content-Encoding: gzip"),
        "the response of the issuer must be JSON",
    ),
    "many digits": (response("200 OK", b"9" * 5000), "the response of the issuer must be JSON"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_answer_is_refused(server: IssuerServer, name: str) -> None:
    server.answers["/a"], reason = REFUSED[name]
    with expect_refusal(reason):
        fetcher(server).read_json(f"{server.url}/a")
    assert server.paths == ["/a"]


@pytest.mark.parametrize("answer", [drip, be_silent], ids=["drip", "silence"])
def test_a_slow_server_ends_at_the_deadline(server: IssuerServer, answer: Answer) -> None:
    server.answers["/a"] = answer
    started = time.monotonic()
    with expect_refusal("TimeoutError"):
        fetcher(server, seconds=0.5).read_json(f"{server.url}/a")
    assert time.monotonic() - started < 3


def test_a_request_has_no_credentials(server: IssuerServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    server.documents["/a?b=c"] = {"d": 1}
    assert fetcher(server).read_json(f"{server.url}/a?b=c") == {"d": 1}
    lines = ["GET /a?b=c HTTP/1.1", f"Host: 127.0.0.1:{server.port}", "Accept: application/json"]
    assert server.requests == ["\r\n".join([*lines, "User-Agent: tunnel-edge", "Connection: close", "", ""])]


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://a", "http://127.0.0.1:1", "http://a.example", "https://", "https://a@b", "https://a:0"),
        *("https://a:65536", "https://a/ b", "https://a/\r\nb", "https://[::1]/", "https://a#b", "https://a\\b"),
        "file:///etc/passwd",
    ],
)
def test_other_urls_cause_no_connection(url: str) -> None:
    with pytest.raises(FetchFailed, match=r"^(url|not https)$"):
        Fetcher(lambda port: False, resolve=_fail_to_resolve).read_json(url)


def _fail_to_resolve(host: str, port: int) -> list[str]:
    raise AssertionError(host)


def _sleep(host: str, port: int) -> list[str]:
    time.sleep(5)
    return []


INNER = ["127.0.0.1", "127.0.0.2", "169.254.169.254", "fd00::1", "64:ff9b::7f00:1", "2002:7f00:1::", "224.0.0.1", "::1"]


@pytest.mark.parametrize("address", INNER)
def test_a_name_of_an_inner_address_causes_no_connection(server: IssuerServer, address: str) -> None:
    fetcher = Fetcher(lambda port: False, resolve=lambda host, port: ["8.8.8.8", address])
    with expect_refusal("the host of the URL must have only public addresses"):
        fetcher.read_json(f"https://issuer.example:{server.port}/a")
    assert server.connections == 0


def test_a_literal_inner_address_causes_no_connection(server: IssuerServer) -> None:
    for host in ("127.0.0.1", "127.0.0.2", "127.1", "2130706433", "0x7f.1", "localhost"):
        with pytest.raises(FetchFailed):
            Fetcher(lambda port: False).read_json(f"https://{host}:{server.port}/a")
    assert server.connections == 0


def test_a_name_is_resolved_once() -> None:
    lookups: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        lookups.append(host)
        return ["127.0.0.1"] if len(lookups) > 1 else ["192.88.99.1"]

    with expect_refusal("the host of the URL must have only public addresses"):
        Fetcher(lambda port: False, resolve=resolve).read_json("https://issuer.example/a")
    assert lookups == ["issuer.example"]


@pytest.mark.parametrize(
    ("resolve", "reason"),
    [(_sleep, "TimeoutError"), (lambda host, port: [], "OSError")],
)
def test_a_name_without_address_fails_in_time(resolve: Callable[[str, int], list[str]], reason: str) -> None:
    started = time.monotonic()
    with expect_refusal(reason):
        Fetcher(lambda port: False, resolve=resolve, seconds=0.5).read_json("https://issuer.example/a")
    assert time.monotonic() - started < 3


def test_a_proxy_resolves_the_name(server: IssuerServer) -> None:
    server.answers["issuer.example:443"] = response("403 Forbidden")
    fetcher = Fetcher(lambda port: False, resolve=_fail_to_resolve, proxy=server.url)
    with expect_refusal("the proxy in OIDC_PROXY refused the connection"):
        fetcher.read_json("https://issuer.example/a")
    assert server.requests == ["CONNECT issuer.example:443 HTTP/1.1\r\nHost: issuer.example:443\r\n\r\n"]


def test_a_loopback_issuer_does_not_use_the_proxy(server: IssuerServer) -> None:
    fetcher = Fetcher(lambda port: True, proxy="http://127.0.0.1:1")
    assert fetcher.read_json(f"{server.url}/keys") == json.loads(json.dumps(server.documents["/keys"]))


@pytest.mark.parametrize(("host", "reason"), [("127.0.0.1", None), ("127.0.0.2", "SSLCertVerificationError")])
def test_a_certificate_must_be_valid_for_the_host(tmp_path: Path, host: str, reason: str | None) -> None:
    certificate, key = certificates.make_self_signed(host)
    (tmp_path / "chain.pem").write_bytes(certificate + key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "chain.pem")
    trusted = ssl.create_default_context(cadata=certificate.decode())
    with serve_issuer(tls=context) as server:
        server.documents["/a"] = {"b": 1}
        url = f"https://127.0.0.1:{server.port}/a"
        with expect_refusal("SSLCertVerificationError"):
            fetcher(server).read_json(url)
        trusting_fetcher = replace(fetcher(server), tls=lambda: trusted)
        if reason:
            with expect_refusal(reason):
                trusting_fetcher.read_json(url)
        else:
            assert trusting_fetcher.read_json(url) == {"b": 1}
