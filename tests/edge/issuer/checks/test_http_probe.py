"""Fetches of a challenge's answer, from a server that answers in a given way."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from edge.issuer.checks import http_probe
from edge.issuer.checks.http_probe import Expected
from edge.issuer.rules.preflight import HttpAnswer
from tests.conftest import free_port

EXPECTED = Expected("app.example.com", "token", "the answer")
LOCAL_ADDRESS = "127.0.0.1"
OTHER_HOST = "location: https://other.example.com/.well-known/acme-challenge/token"
OTHER_PORT = "location: https://app.example.com:8443/.well-known/acme-challenge/token"
OTHER_PATH = "location: https://app.example.com/admin"
PLAIN = "location: http://app.example.com/.well-known/acme-challenge/token"


@contextmanager
def serving(response: bytes, requests: list[bytes]) -> Iterator[int]:
    """Serve one connection, and close it after the response."""
    with socket.create_server((LOCAL_ADDRESS, 0)) as server:

        def answer() -> None:
            with server.accept()[0] as connection:
                requests.append(connection.recv(4096))
                connection.sendall(response)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(5)


@pytest.mark.parametrize(
    ("response", "answer", "is_ours"),
    [
        ("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nthe answer", "answered 200", True),
        ("HTTP/1.0 200 OK\r\n\r\nthe answer\n", "answered 200", True),
        ("HTTP/1.1 200 OK\r\n\r\nanother", "answered 200", False),
        ("HTTP/1.1 404 Not Found\r\n\r\nthe answer", "answered 404", False),
        (f"HTTP/1.1 200 OK\r\n\r\nthe answer{'x' * 20000}", "answered 200", False),
        ("SSH-2.0-OpenSSH\r\n", "sends no valid HTTP response", False),
        ("", "sends no valid HTTP response", False),
        (f"HTTP/1.1 301 Moved\r\n{OTHER_HOST}\r\n\r\n", "redirects elsewhere (301)", False),
        (f"HTTP/1.1 302 Found\r\n{OTHER_PORT}\r\n\r\n", "redirects elsewhere (302)", False),
        (f"HTTP/1.1 307 Found\r\n{OTHER_PATH}\r\n\r\n", "redirects elsewhere (307)", False),
        (f"HTTP/1.1 308 Moved\r\n{PLAIN}\r\n\r\n", "redirects elsewhere (308)", False),
        ("HTTP/1.1 308 Moved\r\nlocation: https://[\r\n\r\n", "sends no valid HTTP response", False),
    ],
)
def test_only_the_answer_of_the_token_is_ours(response: str, answer: str, is_ours: bool) -> None:
    requests: list[bytes] = []
    with serving(response.encode(), requests) as port:
        assert http_probe.probe(LOCAL_ADDRESS, port, EXPECTED) == HttpAnswer(LOCAL_ADDRESS, answer, is_ours)
    assert requests[0].startswith(b"GET /.well-known/acme-challenge/token HTTP/1.1\r\nHost: app.example.com:")


def test_a_redirect_to_https_goes_to_the_same_address() -> None:
    location = "HTTP/1.1 301 Moved\r\nlocation: https://APP.example.com/.well-known/acme-challenge/token\r\n\r\n"
    with serving(location.encode(), []) as port:
        answer = http_probe.probe(LOCAL_ADDRESS, port, EXPECTED)
    assert answer == HttpAnswer(LOCAL_ADDRESS, "refuses connections", False)  # port 443 of this machine


def test_a_closed_port_is_named() -> None:
    assert http_probe.probe(LOCAL_ADDRESS, free_port(), EXPECTED) == HttpAnswer(
        LOCAL_ADDRESS, "refuses connections", False
    )
