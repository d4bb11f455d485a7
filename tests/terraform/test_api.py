"""Requests of the provider: what is repeated, what is not, and which errors users see."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tunneledge_provider.api import Api, ApiError, ConfigurationError, as_error


class Service(ThreadingHTTPServer):
    """A service that gives its answers one after the other, and records the requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[tuple[int, str | None]] = []  # status and Retry-After
        self.requests: list[tuple[str, str | None]] = []
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def api(self, *answers: tuple[int, str | None], max_retries: int = 2) -> Api:
        self.answers = [*answers]
        return Api(f"http://127.0.0.1:{self.server_port}/", "token", max_retries)


class Handler(BaseHTTPRequestHandler):
    server: Service

    def answer(self) -> None:
        self.server.requests.append((self.command, self.headers["Idempotency-Key"]))
        status, retry_after = self.server.answers.pop(0)
        content = json.dumps({"msg": "No.", "details": {}} if status >= 300 else {"id": "1"}).encode()
        self.send_response(status)
        if retry_after is not None:
            self.send_header("Retry-After", retry_after)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = answer

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    yield service
    service.shutdown()
    service.server_close()


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "PUT", "DELETE"])
@pytest.mark.parametrize("status", [409, 429, 503])
def test_what_says_when_to_come_back_is_repeated(service: Service, method: str, status: int) -> None:
    api = service.api((status, "0"), (200, None))
    assert api.send(method, "/things", {}) == {"id": "1"}
    assert len(service.requests) == 2
    assert len(set(service.requests)) == 1, "a creation has one idempotency key"
    assert (service.requests[0][1] is not None) == (method == "POST")


def test_a_conflict_without_a_time_to_come_back_is_final(service: Service) -> None:
    with pytest.raises(ApiError, match=r"^No\.$"):
        service.api((409, None), (200, None)).send("POST", "/things", {})
    assert len(service.requests) == 1


def test_retries_are_bounded(service: Service) -> None:
    with pytest.raises(ApiError) as error:
        service.api(*[(429, "0")] * 9, max_retries=2).get("/things")
    assert (error.value.status, len(service.requests)) == (429, 3)


def test_a_long_wait_is_cut_short() -> None:
    api = Api("http://127.0.0.1:1", "token")
    assert api.retries.retry_after_max == 60
    assert api.retries.backoff_max == 60


def test_no_answer_is_an_error() -> None:
    with pytest.raises(ApiError, match=r"^http://127\.0\.0\.1:1 is unreachable: "):
        Api("http://127.0.0.1:1", "token", 0).get("/things")


@pytest.mark.parametrize(
    ("url", "token", "message"),
    [
        ("", "t", "No service is configured: set url, or TE_URL"),
        ("https://api.example.com", "", "No token is configured: set token, or TE_TOKEN"),
        ("http://api.example.com", "t", "use https://HOST"),
        ("https://user:password@api.example.com", "t", "use https://HOST"),
        ("ftp://127.0.0.1", "t", "use https://HOST"),
        ("http://[::1", "t", "use https://HOST"),
    ],
)
def test_a_token_is_sent_over_https_or_to_this_machine(url: str, token: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Api(url, token)


def test_an_error_has_the_sentence_the_operation_and_the_fields() -> None:
    body = {"error_code": "invalid_request", "msg": "No.", "details": {"name": "too long", "operation_id": "op_1"}}
    error = as_error(400, json.dumps(body).encode())
    assert (error.status, str(error), error.operation_id, error.fields) == (400, "No.", "op_1", {"name": "too long"})
    assert str(as_error(502, b"<html>")) == "The service answered with the status 502 and without a message."
    assert str(as_error(502, b"[]")) == "The service answered with the status 502 and without a message."
