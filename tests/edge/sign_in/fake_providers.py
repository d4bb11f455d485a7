"""Eight identity providers on loopback, which behave as their documentation says."""

import base64
import gzip
import hashlib
import hmac
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

OPENID = ("google", "microsoft", "gitlab", "linkedin", "twitch")
WITH_PKCE = ("github", "google", "microsoft", "gitlab")
TENANT = "11111111-2222-3333-4444-555555555555"


@dataclass
class Person:
    """A user at a provider. `claims` override what the provider says."""

    id: str = "4711"
    name: str = "Ada Lovelace"
    email: str = "ada@example.com"
    verified: bool = True
    claims: dict[str, Any] = field(default_factory=dict)
    teams: list[tuple[str, str]] = field(default_factory=list)
    organizations: dict[str, str] = field(default_factory=dict)  # their state by login
    more: dict[str, bool] = field(default_factory=dict)  # further addresses at GitHub, and whether they are verified


@dataclass
class FakeProviders:
    """The providers, one person each. `calls` are the paths that were requested, `silent` are names that time out."""

    port: int
    people: dict[str, Person] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    silent: set[str] = field(default_factory=set)
    refusing: set[str] = field(default_factory=set)  # applications
    revoked: set[str] = field(default_factory=set)  # users took the application's rights
    granted: dict[str, dict[str, str]] = field(default_factory=dict)  # the request of each code
    secret: str = "very secret"
    tail: str = ""  # of all tokens
    denial: str = ""  # the message of an API that gives no facts
    compresses: bool = False  # compress each answer, whatever the client accepts
    issued: list[str] = field(default_factory=list)  # codes and tokens

    def reset(self) -> None:
        """Forget all that a test has set and seen."""
        self.tail = self.denial = ""
        self.compresses = False
        for records in (self.people, self.calls, self.silent, self.refusing, self.revoked, self.granted, self.issued):
            records.clear()

    def endpoints(self) -> dict[str, dict[str, str]]:
        """Return the content of OAUTH_ENDPOINTS."""
        endpoints = {}
        for name in ("github", *OPENID, "facebook", "amazon"):
            base = f"http://127.0.0.1:{self.port}/{name}"
            provider_endpoints = (
                {"api": f"{base}/api"} if name == "github" else {"userinfo": f"{base}/userinfo", "issuer": base}
            )
            endpoints[name] = {"authorize": f"{base}/authorize", "token": f"{base}/token", **provider_endpoints}
        return endpoints

    def person(self, name: str) -> Person:
        return self.people.setdefault(name, Person())

    def authorize(self, name: str, query: dict[str, str]) -> str:
        """Return the redirect of a person who agrees."""
        code = secrets.token_urlsafe(8)
        self.granted[code] = {**query, "provider": name}
        self.issued.append(code)
        issuer = {"iss": f"http://127.0.0.1:{self.port}/gitlab"} if name == "gitlab" else {}
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state'], **issuer})}"

    def token(self, name: str, form: dict[str, str]) -> tuple[int, Any]:
        """Return the answer of the token endpoint."""
        if form.get("client_secret") != self.secret or name in self.refusing:
            return 401, {"error": "invalid_client"}
        if name in self.revoked:
            return 400, {"error": "invalid_grant"}
        if form["grant_type"] == "refresh_token":
            request = {"client_id": form["client_id"]}
        else:
            request = self.granted.pop(form.get("code", ""), {})
            if request.get("provider") != name or not self._is_proved(name, request, form):
                return 400, {"error": "invalid_grant"}
        answer: dict[str, Any] = {"access_token": f"access-{name}{self.tail}", "token_type": "Bearer"}
        if name not in ("github", "linkedin", "facebook"):
            answer |= {"refresh_token": f"refresh-{name}{self.tail}", "expires_in": 3600}
        if name in OPENID:
            answer["id_token"] = self._id_token(name, form["client_id"], request.get("nonce"))
        self.issued += [answer[field] for field in answer if field.endswith("_token")]
        return 200, answer

    def _is_proved(self, name: str, request: dict[str, str], form: dict[str, str]) -> bool:
        if name not in WITH_PKCE:
            return True
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == request["code_challenge"]

    def _id_token(self, name: str, client_id: str, nonce: str | None) -> str:
        issuer = f"http://127.0.0.1:{self.port}/{name}"
        claims = {"iss": issuer, "aud": client_id, "exp": int(time.time()) + 600, **self._claims(name)}
        if nonce:
            claims["nonce"] = nonce
        parts = [{"alg": "RS256"}, {**claims, **self.person(name).claims}]
        return (
            ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts) + ".x"
        )

    def _claims(self, name: str) -> dict[str, Any]:
        person = self.person(name)
        claims: dict[str, Any] = {"sub": person.id, "name": person.name, "email": person.email}
        if name == "microsoft":
            return {**claims, "tid": TENANT, "preferred_username": person.email}
        return {**claims, "email_verified": person.verified}

    def api(self, name: str, path: str, query: dict[str, str], authorization: str) -> tuple[int, Any]:
        """Return facts about the person."""
        if authorization != f"Bearer access-{name}{self.tail}" or name in self.revoked or self.denial:
            return 401, {"message": self.denial or "Bad credentials"}
        person = self.person(name)
        match name, path:
            case "github", "/api/user":
                return 200, {"id": int(person.id), "login": "ada", "name": person.name}
            case "github", "/api/user/emails":
                addresses = {person.email: person.verified, **person.more}
                return 200, [{"email": address, "verified": is_verified} for address, is_verified in addresses.items()]
            case "github", "/api/user/memberships/orgs":
                organizations = person.organizations.items()
                return 200, [{"state": state, "organization": {"login": login}} for login, state in organizations]
            case "github", "/api/user/teams":
                return 200, [{"slug": slug, "organization": {"login": login}} for login, slug in person.teams]
            case "facebook", "/userinfo":
                proof = hmac.new(self.secret.encode(), authorization.split()[1].encode(), hashlib.sha256).hexdigest()
                if query.get("appsecret_proof") != proof:
                    return 400, {"error": {"code": 100}}
                return 200, {"id": person.id, "name": person.name, "email": person.email}
            case "amazon", "/userinfo":
                return 200, {"user_id": person.id, "name": person.name, "email": person.email}
            case _, "/userinfo":
                return 200, {**self._claims(name), **person.claims}
        return 404, {}


@contextmanager
def serve() -> Iterator[FakeProviders]:
    """Serve the providers on a free port of 127.0.0.1."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            self._answer({name: values[0] for name, values in parse_qs(body).items()})

        def _answer(self, form: dict[str, str]) -> None:
            url = urlsplit(self.path)
            _, name, *rest = url.path.split("/")
            path, query = "/" + "/".join(rest), {key: values[0] for key, values in parse_qs(url.query).items()}
            fake.calls.append(f"{name}{path}")
            if name in fake.silent:
                silenced.wait(20)
            if path == "/authorize":
                return self._send(302, None, fake.authorize(name, query))
            if path == "/token":
                return self._send(*fake.token(name, form))
            return self._send(*fake.api(name, path, query, self.headers.get("authorization", "")))

        def _send(self, status: int, answer: Any, location: str = "") -> None:
            content = b"" if answer is None else json.dumps(answer).encode()
            content = gzip.compress(content) if fake.compresses else content
            self.send_response(status)
            if location:
                self.send_header("location", location)
            self.send_header("content-type", "application/json")
            self.send_header("content-encoding", "gzip" if fake.compresses else "identity")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *line: object) -> None:
            """Say nothing."""

    silenced = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    fake = FakeProviders(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        silenced.set()
        server.shutdown()
        server.server_close()
