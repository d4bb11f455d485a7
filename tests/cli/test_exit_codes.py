"""Each error code of the contract has its exit code, and requests are repeated only if that is safe."""

import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from chalicelib.documents import openapi
from tests.cli.conftest import User
from tests.needs import need
from tunnel_edge.api.client import Client, check_url
from tunnel_edge.api.errors import ApiError, UnreachableError
from tunnel_edge.errors import CommandError

# Exit code and status of each error code.
CODES = {
    "invalid_request": (1, 400),
    "invalid_grant": (1, 400),
    "malformed_json": (1, 400),
    "unknown_reference": (1, 400),
    "unsupported_version": (1, 400),
    "unauthenticated": (4, 401),
    "forbidden": (1, 403),
    "not_found": (3, 404),
    "no_such_route": (3, 404),
    "method_not_allowed": (1, 405),
    "conflict": (6, 409),
    "precondition_failed": (6, 412),
    "payload_too_large": (1, 413),
    "unsupported_media_type": (1, 415),
    "rate_limited": (5, 429),
    "internal_error": (5, 500),
    "unavailable": (5, 503),
}


class Service(ThreadingHTTPServer):
    """A service that answers with the statuses in `answers`, the last one for ever, and records the requests."""

    def __init__(self, *answers: int, retry_after: str = "0") -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.retry_after = [*answers], retry_after
        self.requests: list[tuple[str, str | None, str | None]] = []
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Service

    def answer(self) -> None:
        status = self.server.answers.pop(0) if len(self.server.answers) > 1 else self.server.answers[0]
        self.server.requests.append((self.command, self.headers["Idempotency-Key"], self.headers["Authorization"]))
        code = next((code for code, (_, status_of_code) in CODES.items() if status_of_code == status), "")
        details = {"name": "required", "operation_id": "op_1"}
        body = {"error_code": code, "status_code": status, "msg": "No.", "details": details} if status >= 400 else {}
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Retry-After", self.server.retry_after)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_DELETE = answer

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def service() -> Iterator[Service]:
    server = Service(200)
    yield server
    server.shutdown()
    server.server_close()


def test_every_error_code_of_the_contract_is_here() -> None:
    schemas = json.loads(openapi.FILE.read_text())["components"]["schemas"]
    assert {*schemas["OAuthError"]["properties"]["error_code"]["enum"]} == {*CODES}


@pytest.mark.parametrize("code", CODES)
def test_each_error_code_has_its_exit_code(service: Service, code: str) -> None:
    exit_code, status = CODES[code]
    service.answers = [status]
    with pytest.raises(ApiError) as error:
        Client(service.url).send("GET", "/")
    assert (error.value.code, error.value.status) == (exit_code, status)
    assert str(error.value) == "No.\n  name: required\n  operation: op_1"
    assert len(service.requests) == (3 if exit_code == 5 else 1)


def test_a_creation_is_repeated_with_one_idempotency_key(service: Service) -> None:
    service.answers = [503, 429, 200]
    Client(service.url).post("/api_keys", {})
    assert len(service.requests) == 3
    assert len({key for _, key, _ in service.requests}) == 1
    assert service.requests[0][1]


def test_other_writes_are_not_repeated(service: Service) -> None:
    service.answers = [503, 200]
    with pytest.raises(ApiError):
        Client(service.url).send("DELETE", "/api_keys/self")
    assert len(service.requests) == 1


def test_a_wait_that_is_too_long_is_reported(service: Service) -> None:
    service.answers, service.retry_after = [429], "3600"
    with pytest.raises(ApiError):
        Client(service.url).get("/")
    assert len(service.requests) == 1


def test_a_rejected_token_is_renewed_once(service: Service) -> None:
    service.answers = [401, 200]
    Client(service.url, lambda: "old", lambda: "new").get("/me")
    assert [authorization for _, _, authorization in service.requests] == ["Bearer old", "Bearer new"]


def test_a_service_that_does_not_answer_is_named() -> None:
    with pytest.raises(UnreachableError, match=r"^http://127.0.0.1:9 is unreachable: .*refused"):
        Client("http://127.0.0.1:9", attempts=1).get("/")


@pytest.mark.parametrize(
    "url", ["http://api.example.com", "ftp://127.0.0.1", "https://", "https://me:secret@host", "https://host?x", "host"]
)
def test_a_token_is_sent_over_https_or_to_loopback_only(url: str) -> None:
    with pytest.raises(CommandError) as error:
        check_url(url)
    assert error.value.code == 2


@pytest.mark.parametrize("url", ["https://api.example.com", "https://h/dev/", "http://[::1]:80", "http://localhost:1"])
def test_other_addresses_are_accepted(url: str) -> None:
    assert check_url(url) == url.rstrip("/")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--no-such-flag",), 2),
        (("no-such-command",), 2),
        (("whoami",), 4),
        (("whoami", "--profile", "unknown"), 2),
        (("login", "http://example.com", "--key"), 2),
    ],
)
def test_wrong_usage_and_missing_sign_in(user: User, arguments: tuple[str, ...], code: int) -> None:
    result = user.run(*arguments)
    assert (result.returncode, result.stdout) == (code, "")
    assert result.stderr


def test_the_certificate_of_a_service_is_verified(service: Service, tmp_path: Path) -> None:
    need("openssl")
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*command, *names, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    service.socket = context.wrap_socket(service.socket, server_side=True)
    url = f"https://localhost:{service.server_port}"
    assert Client(url, cacert=str(certificate)).get("/") == {}
    with pytest.raises(UnreachableError, match="certificate verify failed"):
        Client(url, attempts=1).get("/")
    with pytest.raises(UnreachableError, match="certificate"):
        Client(url.replace("localhost", "127.0.0.1"), cacert=str(certificate), attempts=1).get("/")
    with pytest.raises(CommandError, match="is not a file with PEM certificates"):
        Client(url, cacert=str(key)).get("/")
