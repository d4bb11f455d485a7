"""A CA with renewal information (RFC 9773) and faults: a proxy in front of pebble.

It records all requests but those with a rejected nonce, so that a test can say what the CA has received, and when.
"""

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

from cryptography import x509

from tests.pebble import Pebble

_DAY = 86400
_RENEWAL_INFO = "/renewal-info/"
_ORDERS, _REVOCATIONS = "/order-plz", "/revoke-cert"
_PASSED_HEADERS = ("Content-Type", "Link", "Location", "Replay-Nonce", "Retry-After")
_PROBLEM = "urn:ietf:params:acme:error:"

Headers: TypeAlias = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class CaRequest:
    """A request that the CA received: its time, its path, and the content that its client signed."""

    at: float
    method: str
    path: str
    payload: Mapping[str, Any]


@dataclass
class FaultyCa:
    """The CA, and what it does wrong.

    `windows` are the suggested windows (Unix seconds) by the identifiers of certificates; others are in a month.
    Orders get a 429 with `limited_for` as Retry-After, if it is not 0. The next `rejected_nonces` requests fail for
    their nonce. If `is_away`, connections end without a response.
    """

    pebble: Pebble
    port: int = 0
    requests: list[CaRequest] = field(default_factory=list)
    windows: dict[str, tuple[float, float]] = field(default_factory=dict)
    recheck_after: int = 60  # seconds, the Retry-After of windows
    limited_for: int = 0
    rejected_nonces: int = 0
    is_away: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def directory(self) -> str:
        return f"https://localhost:{self.port}/dir"

    @property
    def orders(self) -> list[Mapping[str, Any]]:
        """Return the content of all requests for orders, also of those that failed."""
        return [request.payload for request in self.requests if request.path == _ORDERS]

    @property
    def revoked(self) -> dict[int, int]:
        """Return the reasons for which certificates were revoked, by serial number."""
        revocations = [request.payload for request in self.requests if request.path == _REVOCATIONS]
        certificates = (
            x509.load_der_x509_certificate(_decode(revocation["certificate"])) for revocation in revocations
        )
        return {
            certificate.serial_number: body["reason"]
            for certificate, body in zip(certificates, revocations, strict=True)
        }

    def orders_of(self, domain: str) -> list[Mapping[str, Any]]:
        return [order for order in self.orders if domain in [name["value"] for name in order["identifiers"]]]

    def times_of_orders(self, domain: str) -> list[float]:
        """Return the times of the requests for orders of a domain."""
        orders = [request for request in self.requests if request.path == _ORDERS]
        return [order.at for order in orders if domain in [name["value"] for name in order.payload["identifiers"]]]

    def forward(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> tuple[int, Headers, bytes]:
        """Return pebble's response: status, headers and body. URLs in it lead to the host of the request."""
        connection = HTTPSConnection("localhost", self.pebble.port, context=ssl._create_unverified_context())
        with closing(connection):
            connection.request(method, path, body or None, headers)
            response = connection.getresponse()
            content = response.read()
        passed = [(name, value) for name in _PASSED_HEADERS for value in response.headers.get_all(name, [])]
        if path == "/dir":
            renewals = {"renewalInfo": f"https://{headers['Host']}{_RENEWAL_INFO.rstrip('/')}"}
            content = json.dumps({**json.loads(content), **renewals}).encode()
        return response.status, passed, content

    def window(self, certificate: str) -> tuple[int, Headers, bytes]:
        """Return the renewal information of a certificate."""
        now = time.time()
        start, end = self.windows.get(certificate, (now + 30 * _DAY, now + 31 * _DAY))
        times = {"start": _time(start), "end": _time(end)}
        headers = [("Content-Type", "application/json"), ("Retry-After", str(self.recheck_after))]
        return 200, headers, json.dumps({"suggestedWindow": times}).encode()

    def rejects_nonce(self, request: CaRequest) -> bool:
        """Return whether the nonce of a request is rejected."""
        with self.lock:
            is_rejected = request.method == "POST" and self.rejected_nonces > 0
            self.rejected_nonces -= is_rejected
            return is_rejected


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    ca: FaultyCa

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = CaRequest(time.time(), self.command, self.path, _payload(body))
        if self.ca.is_away:
            self.close_connection = True
            return
        if self.ca.rejects_nonce(request):
            self._send_problem("badNonce", 400, [])
            return
        self.ca.requests.append(request)
        if self.path.startswith(_RENEWAL_INFO):
            self._send(*self.ca.window(self.path.removeprefix(_RENEWAL_INFO)))
            return
        if self.ca.limited_for and self.path == _ORDERS:
            self._send_problem("rateLimited", 429, [("Retry-After", str(self.ca.limited_for))])
            return
        headers = {name: self.headers[name] for name in ("Host", "Content-Type") if self.headers[name]}
        self._send(*self.ca.forward(self.command, self.path, headers, body))

    do_HEAD = do_POST = do_GET

    def _send_problem(self, kind: str, status: int, more: Headers) -> None:
        _, headers, _ = self.ca.forward("HEAD", "/nonce-plz", {})
        nonce = [header for header in headers if header[0] == "Replay-Nonce"]  # each response has a fresh one
        problem = json.dumps({"type": _PROBLEM + kind, "detail": "a fault of the test", "status": status}).encode()
        self._send(status, [*nonce, *more, ("Content-Type", "application/problem+json")], problem)

    def _send(self, status: int, headers: Headers, body: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(pebble: Pebble) -> Iterator[FaultyCa]:
    """Serve the CA with pebble's certificate."""
    ca = FaultyCa(pebble)
    handler = type("_OwnHandler", (_Handler,), {"ca": ca})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads, server.block_on_close = True, False
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pebble.bundle, pebble.key)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    ca.port = server.server_port
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield ca
    finally:
        server.shutdown()
        server.server_close()


def _payload(body: bytes) -> Mapping[str, Any]:
    """Return the signed content of a request (RFC 7515), empty without one."""
    if not body:
        return {}
    content = _decode(json.loads(body)["payload"])
    return json.loads(content) if content else {}


def _decode(text: str) -> bytes:
    """Decode base64url without padding."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
