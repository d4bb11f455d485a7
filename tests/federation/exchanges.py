"""Exchanges of tokens in tests: an issuer on loopback, credentials that trust it, and the requests of clients."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.federation import issuer_server, signing
from tests.federation.issuer_server import IssuerServer
from tests.transports import RECORD, Answer, Client

CREDENTIALS, TOKENS = "/federated_credentials", "/tokens"
GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
JWT, ID_TOKEN = "urn:ietf:params:oauth:token-type:jwt", "urn:ietf:params:oauth:token-type:id_token"
UNNAMED = "value-of-a-claim-that-no-credential-names"
FORM = "application/x-www-form-urlencoded"
REFUSED = (
    "The token, the federated credential or its owner is not accepted. "
    "An admin can read the reason in the usage of the credential."
)


@dataclass(frozen=True)
class Issuer:
    """An issuer that the operator allows. It makes tokens that are valid now."""

    server: IssuerServer

    @property
    def url(self) -> str:
        return self.server.url

    def credential(self, admin: Client, **more: Any) -> dict[str, Any]:
        """Return a new federated credential of the admin for this issuer."""
        owner = {} if {"owner_claim", "owner_id"} & set(more) else {"owner_id": admin.user}
        credential: dict[str, Any] = admin.create(CREDENTIALS, self.fields(**owner, **more))
        return credential

    def fields(self, **more: Any) -> dict[str, Any]:
        """Return the request for a federated credential for this issuer."""
        claims = {"repository_id": "74", "ref": ["refs/heads/main", "refs/tags/*"]}
        return {"issuer": self.url, "claims": claims, "scopes": ["backends:read", "backends:write"], **more}

    def payload(self, audience: str, **claims: Any) -> dict[str, Any]:
        now = int(time.time())
        times = {"iat": now, "nbf": now - 5, "exp": now + 300}
        members = {**signing.PAYLOAD, "actor": UNNAMED, "iss": self.url, "aud": audience, **times, **claims}
        return {name: value for name, value in members.items() if value is not None}

    def token(self, audience: str, **claims: Any) -> str:
        return signing.token(payload=self.payload(audience, **claims))


@contextmanager
def serve_allowed_issuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Issuer]:
    """Serve an issuer that OIDC_ISSUERS names."""
    with issuer_server.serve_issuer() as server:
        monkeypatch.setenv("OIDC_ISSUERS", f"{server.url}=repository_id|repository_owner_id|hd")
        yield Issuer(server)


def parameters(token: str, credential: str, /, **more: Any) -> dict[str, Any]:
    RECORD.secrets.add(token.partition(".")[2])
    form = {"grant_type": GRANT, "subject_token": token, "subject_token_type": JWT, "audience": credential}
    return {name: value for name, value in {**form, **more}.items() if value is not None}


def exchange(client: Client, token: str, credential: str, /, **more: Any) -> Answer:
    """Send a request as JSON, without token and version."""
    return send(client, json.dumps(parameters(token, credential, **more)).encode(), "application/json")


def exchange_form(client: Client, token: str, credential: str, /, **more: Any) -> Answer:
    return send(client, urlencode(parameters(token, credential, **more)).encode(), FORM)


def send(client: Client, body: bytes, media_type: str) -> Answer:
    anonymous = client.with_token("").with_version("")
    RECORD.secrets.add(UNNAMED)
    return anonymous.send("POST", TOKENS, body, Content_Type=media_type)


def error(answer: Answer, name: str, code: str, msg: str, **details: str) -> dict[str, Any]:
    """Return the whole body that an error must have."""
    return {
        "error": name,
        "error_description": msg,
        "error_code": code,
        "status_code": answer.status,
        "msg": msg,
        "details": {**details, "operation_id": answer.headers["operation-id"]},
    }


def assert_refused(answer: Answer) -> None:
    """Assert the one answer to everything that is wrong with token, credential or owner."""
    assert (answer.status, answer.json) == (400, error(answer, "invalid_grant", "invalid_grant", REFUSED))
    assert answer.headers["cache-control"] == "no-store"
