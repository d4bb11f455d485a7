"""Exchanges for keys and certificates: their fields, rights, events, calls of the store, and what is stored."""

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from chalicelib import clock
from chalicelib.model.limits.counters import OF_PROCESS
from chalicelib.operator import commands
from tests.conftest import stored
from tests.federation import exchanges
from tests.federation.exchanges import Issuer, error, exchange, exchange_form
from tests.queries import calls
from tests.samples import public_key
from tests.transports import Client

AUTHORITIES = "/ssh_certificate_authorities"


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Issuer]:
    with exchanges.serve_allowed_issuer(monkeypatch) as issuer:
        yield issuer


def certificate(authority: str, **more: Any) -> dict[str, Any]:
    fields = {"ssh_certificate_authority_id": authority, "public_key": public_key(), "principals": ["deploy"]}
    return {**fields, **more}


def last_event(admin: Client) -> dict[str, Any]:
    event: dict[str, Any] = admin.get("/audit_events?limit=1").json["audit_events"][0]
    return event


def reason(admin: Client, credential: str) -> str | None:
    last = admin.get(f"/federated_credentials/{credential}/usage").json["last_refusal"]
    return last["reason"] if last else None


def test_a_token_becomes_a_key(admin: Client, issuer: Issuer) -> None:
    bot = admin.create("/bot_users", {"name": "deploy"})["id"]
    scopes = ["api_keys:create", "backends:read"]
    credential = issuer.credential(admin, owner_id=bot, scopes=scopes)["id"]
    before = int(time.time())
    answer = exchange(admin, issuer.token(credential), credential)
    body = answer.json
    end = clock.parse(body["expires_at"]).timestamp()
    assert answer.status == 200
    assert body == {
        "access_token": body["access_token"],
        "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "token_type": "Bearer",
        "expires_in": body["expires_in"],
        "expires_at": body["expires_at"],
        "scope": "api_keys:create backends:read",
        "id": f"ak_{body['access_token'][3:30]}",
        "owner": {"id": bot, "name": "deploy"},
    }
    assert before + 900 <= end <= time.time() + 900
    assert 898 <= body["expires_in"] <= 900
    assert answer.headers["cache-control"] == "no-store"
    assert "etag" not in answer.headers
    key = admin.with_token(body["access_token"])
    assert key.get("/me").json["key"]["expires_at"] == body["expires_at"]
    assert (key.get("/backends/weighted").status, key.get("/tunnels").status) == (200, 403)
    assert admin.get(f"/api_keys/{body['id']}").json["created_by"] == credential
    child = key.create("/api_keys", {"scopes": ["backends:read"]})
    assert child["expires_at"] == body["expires_at"]


def test_a_form_is_the_same_and_reduces_scopes_and_lifetime(admin: Client, issuer: Issuer) -> None:
    credential = issuer.credential(admin)["id"]
    requested = "urn:ietf:params:oauth:token-type:access_token"
    more = {"scope": "backends:read", "lifetime": "60", "requested_token_type": requested}
    id_token = {"subject_token_type": exchanges.ID_TOKEN, "subject_token": issuer.token(credential)}
    body = exchange_form(admin, "", credential, **more, **id_token).json
    assert (body["scope"], body["expires_in"] in (59, 60)) == ("backends:read", True)
    key = admin.with_token(body["access_token"])
    assert (key.get("/backends/weighted").status, key.post("/backends/weighted", {}).status) == (200, 403)
    as_json = exchange(admin, issuer.token(credential), credential, scope="backends:read", lifetime=60).json
    names = ("access_token", "id", "expires_at", "expires_in")
    assert {**as_json, **{name: body[name] for name in names}} == body


def test_an_issued_key_is_no_reference_to_its_bot(
    admin: Client, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRICT_REFERENCES", "true")
    bot = admin.create("/bot_users", {"name": "deploy"})["id"]
    credential = issuer.credential(admin, owner_id=bot)["id"]
    key = admin.with_token(exchange(admin, issuer.token(credential), credential).json["access_token"])
    assert key.get("/backends/weighted").status == 200
    refusal = admin.delete(f"/bot_users/{bot}")
    assert (refusal.status, refusal.json["details"]["used_by.0"]) == (409, f"/federated_credentials/{credential}")
    assert "used_by.1" not in refusal.json["details"]


def test_a_certificate_is_signed_instead_of_a_key(admin: Client, issuer: Issuer) -> None:
    authority, other = (admin.create(AUTHORITIES, {})["id"] for _ in range(2))
    bot = admin.create("/bot_users", {"name": "deploy"})["id"]
    scope = f"ssh_user_certificates:create@{authority}"
    credential = issuer.credential(admin, scopes=[scope], owner_id=bot)["id"]
    keys = len(admin.get("/api_keys").json["keys"])
    answer = exchange(admin, issuer.token(credential), credential, certificate=certificate(authority), lifetime=600)
    signed_certificate = answer.json["ssh_user_certificate"]
    assert (answer.status, answer.json) == (
        200,
        {
            "issued_token_type": "urn:tunnel-edge:token-type:ssh_user_certificate",
            "token_type": "N_A",
            "expires_in": answer.json["expires_in"],
            "ssh_user_certificate": admin.get(f"/ssh_user_certificates/{signed_certificate['id']}").json,
        },
    )
    assert 598 <= answer.json["expires_in"] <= 600
    assert signed_certificate["created_by"] == credential
    assert len(admin.get("/api_keys").json["keys"]) == keys
    event = last_event(admin)
    assert (event["action"], event["actor"]["key_id"], event["details"]["claims.repository_id"]) == (
        "ssh_user_certificate.create",
        credential,
        "74",
    )

    def read_refusal(**fields: Any) -> tuple[int, dict[str, str]]:
        certificate_fields = fields.pop("certificate", certificate(authority, **fields.pop("fields", {})))
        answer = exchange(admin, issuer.token(credential), credential, certificate=certificate_fields, **fields)
        return answer.status, {name: value for name, value in answer.json["details"].items() if name != "operation_id"}

    late = clock.rfc3339(clock.at(clock.seconds() + 1000))
    assert read_refusal(fields={"principals": []})[0] == 400
    assert [*read_refusal(fields={"principals": []})[1]] == ["certificate.principals"]
    assert read_refusal(fields={"valid_until": late}) == (
        400,
        {"certificate.valid_until": "must be at most 900 seconds from now"},
    )
    answer = exchange(admin, issuer.token(credential), credential, certificate=certificate(other))
    lacking = f"This federated credential lacks the scope ssh_user_certificates:create@{other}."
    assert (answer.status, answer.json["msg"]) == (403, lacking)
    assert read_refusal(scope=scope) == (400, {"scope": "must be absent if certificate is present"})
    policy = {"user": {"allowed_principals": ["{user}"], "default_lifetime": 300}}
    assert admin.put(f"{AUTHORITIES}/{authority}/policy", policy).status == 200
    assert [*read_refusal(fields={"principals": ["root"]})[1]] == ["certificate.principals.0"]
    body = exchange(admin, issuer.token(credential), credential, certificate=certificate(authority)).json
    assert 298 <= body["expires_in"] <= 300


def test_the_event_names_the_token_and_only_the_claims_of_the_credential(admin: Client, issuer: Issuer) -> None:
    credential = issuer.credential(admin)["id"]
    body = exchange(admin, issuer.token(credential, ref="refs/tags/\tv1"), credential).json
    event = last_event(admin)
    assert event["actor"] == {"type": "federated", "key_id": credential, "owner_id": admin.user, "name": "admin"}
    assert event["source_ip"] == "127.0.0.1"
    assert event["details"] == {
        "scopes": ["backends:read", "backends:write"],
        "expires_at": body["expires_at"],
        "owner_id": admin.user,
        "created_by": credential,
        "issuer": issuer.url,
        "subject": "repo:octo/demo:ref:refs/heads/main",
        "token_id": "e6a6b6f2",
        "claims.repository_id": "74",
        "claims.ref": "refs/tags/v1",
    }
    assert admin.get(f"/audit_events?actor_id={credential}").json["audit_events"] == [event]


def test_an_exchange_is_three_calls(admin: Client, issuer: Issuer) -> None:
    credential = issuer.credential(admin)["id"]
    authority = admin.create(AUTHORITIES, {})["id"]
    person = issuer.credential(admin, owner_claim="email", provision=True, scopes=["*"])["id"]
    email = {"email": "ada@example.com", "email_verified": True}
    admin.create("/users", {"name": "eve@example.com"})

    def record_calls(audience: str, claims: dict[str, Any], **more: Any) -> list[str]:
        with calls() as operations:
            assert exchange(admin, issuer.token(audience, **claims), audience, **more).status == 200
        return operations

    fetched = ["BatchGetItem", "UpdateItem", "PutItem", "TransactWriteItems", "BatchGetItem"]
    key = ["BatchGetItem", "TransactWriteItems", "BatchGetItem"]
    assert record_calls(credential, {}) == fetched
    assert record_calls(credential, {}) == key
    assert record_calls(person, {**email, "email": "eve@example.com"}) == ["BatchGetItem", "BatchGetItem", *key]
    assert record_calls(person, {**email, "email": "eve@example.com"}) == ["BatchGetItem", *key]
    signer = issuer.credential(admin, scopes=[f"ssh_user_certificates:create@{authority}"])["id"]
    record_calls(signer, {}, certificate=certificate(authority))  # the first one allows the edge to act for the account
    signing = ["BatchGetItem", "BatchGetItem", "TransactWriteItems"]
    assert record_calls(signer, {}, certificate=certificate(authority)) == signing


def test_the_rules_of_the_account_shorten_keys_and_bound_scopes(admin: Client, issuer: Issuer) -> None:
    credential, wide = issuer.credential(admin)["id"], issuer.credential(admin, scopes=["*"])["id"]
    rules = {"max_lifetime": 60, "require_scopes": True, "allowed_networks": ["127.0.0.0/8"], "max_idle_days": 1}
    assert admin.put("/account/api_key_rules", rules).status == 200
    body = exchange(admin, issuer.token(credential), credential).json
    assert body["expires_in"] in (59, 60)
    assert admin.with_token(body["access_token"]).get("/backends/weighted").status == 200
    answer = exchange(admin, issuer.token(wide), wide)
    rule = "must not contain '*', as the account's rules require"
    assert answer.json == error(answer, "invalid_scope", "invalid_request", f"'scope' {rule}.", scope=rule)
    assert exchange(admin, issuer.token(wide), wide, scope="*:read").status == 200
    rules["allowed_networks"] = ["192.0.2.0/24"]
    assert admin.send("PUT", "/account/api_key_rules", rules, If_Match="*").status == 200
    body = exchange(admin, issuer.token(credential), credential).json
    assert admin.with_token(body["access_token"]).get("/backends/weighted").status == 403


def test_no_token_and_no_unnamed_claim_is_kept(admin: Client, issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    authority = admin.create(AUTHORITIES, {})["id"]
    scopes = ["backends:read", f"ssh_user_certificates:create@{authority}"]
    fields = {"owner_claim": "email", "provision": True, "single_use": True, "scopes": scopes}
    credential = issuer.credential(admin, **fields)["id"]
    email = {"email": "ada@example.com", "email_verified": True}
    tokens = [issuer.token(credential, jti=f"jti{number}", **email) for number in range(2)]
    answers = [
        exchange(admin, tokens[0], credential),
        exchange(admin, tokens[1], credential, certificate=certificate(authority)),
        exchange(admin, tokens[0], credential),
        exchange(admin, issuer.token(credential, ref="refs/heads/x", **email), credential),
        exchange(admin, f"{tokens[0][:-8]}AAAAAAAA", credential),
    ]
    assert [answer.status for answer in answers] == [200, 200, 400, 400, 400]
    texts = [answer.text for answer in answers[2:]] + [record.message for record in caplog.records]
    texts += [json.dumps(record, default=str) for records in stored().values() for record in records.values()]
    texts += [admin.get(path).text for path in ("/audit_events", f"/federated_credentials/{credential}/usage")]
    key = answers[0].json["access_token"]
    secrets = [exchanges.UNNAMED, key[31:], *(part for token in tokens for part in token.split(".")[1:])]
    assert [secret for secret in secrets for text in texts if secret in text] == []


def test_certificates_of_exchanges_count_for_the_limit_of_the_account(admin: Client, issuer: Issuer) -> None:
    authority = admin.create(AUTHORITIES, {})["id"]
    bot = admin.create("/bot_users", {"name": "deploy"})["id"]
    scope = f"ssh_user_certificates:create@{authority}"
    credential = issuer.credential(admin, scopes=[scope], owner_id=bot)["id"]
    commands.main(["accounts", "limits", admin.account, "--certificates-per-second", "1"])
    OF_PROCESS.forget()
    answers = [
        exchange(admin, issuer.token(credential), credential, certificate=certificate(authority)) for _ in range(3)
    ]
    OF_PROCESS.forget()
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert (answers[2].json["error_code"], answers[2].headers["retry-after"]) == ("rate_limited", "1")
    assert [*answers[2].json] == ["error_code", "status_code", "msg", "details"]  # as the gateway's own


def test_the_trace_of_a_request_is_passed_on_to_the_issuer(admin: Client, issuer: Issuer) -> None:
    credential = issuer.credential(admin)["id"]
    trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    body = json.dumps(exchanges.parameters(issuer.token(credential), credential)).encode()
    nobody = admin.with_token("").with_version("")
    answer = nobody.send("POST", "/tokens", body, Content_Type="application/json", traceparent=f"00-{trace}-{span}-01")
    assert answer.status == 200
    matches = [re.search(f"traceparent: 00-{trace}-([0-9a-f]{{16}})-01\r\n", text) for text in issuer.server.requests]
    assert matches
    assert all(match and match[1] != span for match in matches)
