"""An OpenID Connect issuer on loopback, with a page to sign in, PKCE, the device grant, and refresh tokens."""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.federation import signing

CLIENT = "te-client"
PAGE = '<!doctype html><title>Issuer</title><form method="post"><button id="sign-in">Sign in</button></form>'


@dataclass
class State:
    """Sign-ins that have begun, and what the tokens of this issuer contain."""

    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    claims: dict[str, Any] = field(default_factory=dict)
    devices: dict[str, bool] = field(default_factory=dict)
    refresh_tokens: set[str] = field(default_factory=set)
    requests: list[str] = field(default_factory=list)
    sends_refresh_tokens: bool = False
    secrets: set[str] = field(default_factory=set)  # that clients sent or received
    may_answer: threading.Event = field(default_factory=threading.Event)


class OidcIssuer(ThreadingHTTPServer):
    """The issuer."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Pages)
        self.state = State()
        self.state.may_answer.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def token(self, audience: str = CLIENT, **claims: Any) -> str:
        """Return an ID token that is valid now."""
        now = int(time.time())
        payload = {"iss": self.url, "aud": audience, "sub": "ada", "iat": now, "nbf": now - 5, "exp": now + 300}
        return signing.token(payload={**payload, **self.state.claims, **claims})


class Pages(BaseHTTPRequestHandler):
    server: OidcIssuer

    def parse_request(self) -> bool:
        self.server.state.may_answer.wait(30)
        return super().parse_request()

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        self.server.state.requests.append(f"GET {path}")
        if path == "/.well-known/openid-configuration":
            names = ("authorization_endpoint", "token_endpoint", "device_authorization_endpoint", "jwks_uri")
            self.send_json({"issuer": self.server.url, **{name: f"{self.server.url}/{name}" for name in names}})
        elif path == "/jwks_uri":
            self.send_json({"keys": [signing.rsa_jwk()]})
        elif path == "/authorization_endpoint":
            self.send_bytes(200, PAGE.encode(), ("Content-Type", "text/html"))
        else:
            self.send_bytes(404, b"")

    def do_POST(self) -> None:
        parts = urlsplit(self.path)
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        form = {name: values[0] for name, values in parse_qs(text).items()}
        self.server.state.requests.append(f"POST {parts.path} {form.get('grant_type', '')}".strip())
        if parts.path == "/authorization_endpoint":
            self.redirect({name: values[0] for name, values in parse_qs(parts.query).items()})
        elif parts.path == "/device_authorization_endpoint":
            code = secrets.token_urlsafe()
            self.server.state.devices[code] = False
            answer = {"device_code": code, "user_code": "ABCD-EFGH", "verification_uri": f"{self.server.url}/device"}
            self.send_json({**answer, "expires_in": 60, "interval": 0.2})
        else:
            self.send_tokens(form)

    def redirect(self, query: dict[str, str]) -> None:
        code = secrets.token_urlsafe()
        self.server.state.codes[code] = query
        target = f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"
        self.send_bytes(303, b"", ("Location", target))

    def send_tokens(self, form: dict[str, str]) -> None:
        state, claims = self.server.state, {}
        state.secrets |= {
            form[name] for name in ("code", "code_verifier", "device_code", "refresh_token") if name in form
        }
        if form["grant_type"] == "authorization_code":
            authorization = state.codes.pop(form["code"])
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            if (authorization["code_challenge"], authorization["redirect_uri"]) != (challenge, form["redirect_uri"]):
                return self.send_json({"error": "invalid_grant"}, 400)
            claims["nonce"] = authorization["nonce"]
        elif form["grant_type"] == "refresh_token" and form["refresh_token"] not in state.refresh_tokens:
            return self.send_json({"error": "invalid_grant"}, 400)
        elif form["grant_type"].endswith("device_code") and not state.devices[form["device_code"]]:
            state.devices[form["device_code"]] = True  # confirmed by the next request
            return self.send_json({"error": "authorization_pending"}, 400)
        answer = {"id_token": self.server.token(**claims), "token_type": "Bearer"}
        if state.sends_refresh_tokens:
            answer["refresh_token"] = secrets.token_urlsafe()
            state.refresh_tokens.add(answer["refresh_token"])
        state.secrets |= {answer[name] for name in ("id_token", "refresh_token") if name in answer}
        return self.send_json(answer)

    def send_json(self, value: Any, status: int = 200) -> None:
        self.send_bytes(status, json.dumps(value).encode(), ("Content-Type", "application/json"))

    def send_bytes(self, status: int, content: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", str(len(content)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        pass


@contextmanager
def serving() -> Iterator[OidcIssuer]:
    """Serve an issuer."""
    with OidcIssuer() as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()
