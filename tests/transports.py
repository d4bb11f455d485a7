"""The transports by which tests reach the service, behind one interface, and a record of what went through them.

In process: the app behind the local server's gateway. Over HTTP: any base URL.
"""

import base64
import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import httpx
from chalice.app import Chalice
from chalice.config import Config

from app import app
from chalicelib.http import auth
from infra.local.local_server import Gateway
from tests import conformity

VERSION = {"Service-Version": auth.VERSIONS[0]}
MAY_BE_SECRET = re.compile(r"[0-9A-Za-z]{27}_[\w-]{20}|PRIVATE KEY-----")  # a token, or a private key


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]  # names in lower case
    text: str
    content: bytes = b""  # of an answer that may be binary

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class Transport(Protocol):
    @property
    def base_url(self) -> str: ...

    def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer: ...


class InProcess:
    """An app, reached as through the local server but without a socket."""

    base_url = "http://localhost"

    def __init__(self, chalice_app: Chalice = app) -> None:
        self._gateway = Gateway(chalice_app, Config.create(chalice_app=chalice_app))

    def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        answer = self._gateway.handle_request(method, path, dict(headers), body or None)
        flat = {**answer["headers"], **answer["multiValueHeaders"]}
        headers, text = {k.lower(): v for k, v in flat.items()}, answer["body"] or ""
        if not answer.get("isBase64Encoded"):
            return Answer(answer["statusCode"], headers, text, text.encode())
        content = base64.b64decode(text)
        text = plain(headers, content).decode() if "content-encoding" in headers else text
        return Answer(answer["statusCode"], headers, text, content)


def plain(headers: Mapping[str, str], content: bytes) -> bytes:
    """Return the body of an answer as HTTP clients give it, decompressed."""
    return gzip.decompress(content) if headers.get("content-encoding") == "gzip" else content


class Http:
    """Any base URL."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self._client = httpx.Client(timeout=60, trust_env=False)

    def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        answer = self._client.request(method, self.base_url + path, headers=dict(headers), content=body or None)
        headers = {k.lower(): v for k, v in answer.headers.items()}
        return Answer(answer.status_code, headers, answer.text, answer.content)


@dataclass
class Record:
    """A record of a test run's traffic: the secrets that went in or out, and the texts that came out.

    `sealed` holds what the vault sealed in this process, each with its context; `opened` what those of servers sealed;
    `answers` the refusals, and what else may hold a secret; `log_files` what servers wrote; `events` the audit events
    that were stored, of which exports are made.
    """

    secrets: set[str] = field(default_factory=set)
    sealed: list[tuple[bytes, dict[str, str]]] = field(default_factory=list)
    opened: set[bytes] = field(default_factory=set)
    answers: list[str] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    log_files: list[Path] = field(default_factory=list)
    events: list[str] = field(default_factory=list)


RECORD = Record()


@dataclass(frozen=True)
class Client:
    """A caller with its transport: sends JSON with its token and the version header.

    `check` holds what is sent and answered against the document of the API; a transport to another app needs another.
    """

    transport: Transport
    token: str = ""
    headers: Mapping[str, str] = field(default_factory=lambda: VERSION)
    account: str = ""
    user: str = ""
    check: Callable[[str, str, bytes, int, Mapping[str, str], str], None] = conformity.check

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """`body` is sent as JSON, or as it is when it is bytes. A header given as "" is left out."""
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        all_headers = {"Content-Type": "application/json"} if raw else {}
        all_headers |= {"Authorization": f"Bearer {self.token}"} if self.token else {}
        all_headers |= {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        RECORD.secrets.add(all_headers.get("Authorization", "").partition(" ")[2])
        answer = self.transport.send(method, path, {name: value for name, value in all_headers.items() if value}, raw)
        self._remember(answer)
        self.check(method, path, raw, answer.status, answer.headers, answer.text)
        return answer

    def get(self, path: str) -> Answer:
        return self.send("GET", path)

    def post(self, path: str, body: Any) -> Answer:
        return self.send("POST", path, body)

    def patch(self, path: str, body: Any) -> Answer:
        return self.send("PATCH", path, body)

    def put(self, path: str, body: Any) -> Answer:
        return self.send("PUT", path, body)

    def delete(self, path: str) -> Answer:
        return self.send("DELETE", path)

    def create(self, path: str, body: Any) -> Any:
        """Return the body of a creation that must succeed."""
        answer = self.post(path, body)
        assert answer.status == 201, answer.text
        return answer.json

    def all(self, path: str, items: str, limit: int = 100) -> Iterator[Any]:
        """Yield every entry of a list, by its next_page_uri."""
        uri = f"{path}{'&' if '?' in path else '?'}limit={limit}"
        while uri:
            answer = self.get(uri)
            assert answer.status == 200, answer.text
            yield from answer.json[items]
            uri = (answer.json["next_page_uri"] or "").removeprefix(self.transport.base_url)

    def with_token(self, token: str) -> "Client":
        RECORD.secrets.add(token)
        return replace(self, token=token)

    def with_version(self, version: str) -> "Client":
        """Return the same, speaking another version; "" leaves the header out."""
        return replace(self, headers=dict.fromkeys(self.headers, version))

    def _remember(self, answer: Answer) -> None:
        text = answer.text
        if answer.status == 201 and '"token":"' in text:
            token = answer.json["token"]
            RECORD.secrets.add(token)
            text = text.replace(token, "", 1)  # shown this once
        if answer.status == 200 and text.startswith('{"access_token":"'):
            token = answer.json["access_token"]
            RECORD.secrets.add(token)
            text = text.replace(token, "", 1)
        is_document = answer.status == 200 and ("<!doctype html>" in text[:20] or '"openapi":' in text[:20])
        if answer.status >= 400 or (MAY_BE_SECRET.search(text) and not is_document):  # whose samples look like secrets
            RECORD.answers.append(text)


def key_in(token: str) -> str:
    """Return the id of the API key in a token."""
    return f"ak_{token[3:30]}"


def refusal(answer: Answer, **details: str) -> dict[str, Any]:
    """Return the whole body that a refusal must have, given its message and the details beside the operation id."""
    body = answer.json
    return {
        "error_code": body["error_code"],
        "status_code": answer.status,
        "msg": body["msg"],
        "details": {**details, "operation_id": answer.headers["operation-id"]},
    }
