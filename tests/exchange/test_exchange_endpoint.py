"""POST /tokens as clients see it: keys and certificates, reduced rights, errors, and what is recorded."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.federation import exchanges
from tests.federation.exchanges import TOKENS, Issuer, assert_refused, error, exchange, send
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


def test_a_parameter_occurs_once(admin: Client, issuer: Issuer) -> None:
    form = b"audience=a&audience=a&scope=&grant_type=x"
    answer = send(admin, form, exchanges.FORM)
    details = {"audience": "must be sent only once"}
    assert answer.json == error(
        answer, "invalid_request", "invalid_request", ("'audience' must be sent only once."), **details
    )
    answer = send(admin, b'{"audience": "a", "audience": "a"}', "application/json")
    assert (answer.status, answer.json["error"], answer.json["error_code"]) == (
        400,
        "invalid_request",
        "malformed_json",
    )


@pytest.mark.parametrize(
    ("body", "media", "status", "code"),
    [
        (b"<a/>", "application/xml", 415, "unsupported_media_type"),
        (b"a=" + b"b" * (256 * 1024), exchanges.FORM, 413, "payload_too_large"),
        (b"a=%ff", exchanges.FORM, 400, "invalid_request"),
        (b"\xff", exchanges.FORM, 400, "invalid_request"),
        (b"", "", 400, "invalid_request"),
        (b"[", "application/json", 400, "malformed_json"),
    ],
)
def test_a_body_that_cannot_be_read(admin: Client, body: bytes, media: str, status: int, code: str) -> None:
    answer = send(admin, body, media)
    assert (answer.status, answer.json["error_code"], answer.json["error"]) == (status, code, "invalid_request")
    assert answer.json["error_description"] == answer.json["msg"]
    assert all(" " <= sign <= "~" and sign not in '"\\' for sign in answer.json["msg"])


def test_a_version_is_optional_but_not_any(admin: Client, issuer: Issuer) -> None:
    credential = issuer.credential(admin)["id"]
    for version, status in (("2", 200), ("0", 200), ("9", 400)):
        body = exchanges.parameters(issuer.token(credential), credential)
        answer = admin.with_token("").with_version(version).post(TOKENS, body)
        assert answer.status == status
    assert (answer.json["error"], answer.json["error_code"]) == ("invalid_request", "unsupported_version")


def test_an_idempotency_key_is_ignored(admin: Client, issuer: Issuer) -> None:
    credential = issuer.credential(admin)["id"]
    body = json.dumps(exchanges.parameters(issuer.token(credential), credential)).encode()
    answers = [
        admin.with_token("").send("POST", TOKENS, body, Idempotency_Key="a", Content_Type="application/json")
        for _ in range(2)
    ]
    assert [answer.status for answer in answers] == [200, 200]
    assert answers[0].json["id"] != answers[1].json["id"]


def test_earlier_formats_of_records_have_no_exchange(
    admin: Client, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    credential = issuer.credential(admin)["id"]
    monkeypatch.setenv("RECORD_FORMAT", "3")
    answer = exchange(admin, issuer.token(credential), credential)
    msg = "This service cannot exchange tokens until its operator sets RECORD_FORMAT to 4."
    assert (answer.status, answer.json) == (503, error(answer, "temporarily_unavailable", "unavailable", msg))


def test_an_inactive_owner_or_account_gets_nothing(admin: Client, issuer: Issuer) -> None:
    bot = admin.create("/bot_users", {"name": "deploy"})["id"]
    credential = issuer.credential(admin, owner_id=bot)["id"]
    admin.patch(f"/bot_users/{bot}", {"active": False})
    assert_refused(exchange(admin, issuer.token(credential), credential))
    assert reason(admin, credential) == "owner_inactive"
    admin.patch(f"/bot_users/{bot}", {"active": True})
    assert exchange(admin, issuer.token(credential), credential).status == 200
    other = admin.create("/bot_users", {"name": "gone"})["id"]
    orphan = issuer.credential(admin, owner_id=other)["id"]
    assert admin.delete(f"/bot_users/{other}").status == 204
    assert_refused(exchange(admin, issuer.token(orphan), orphan))
