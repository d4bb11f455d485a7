"""Tokens that are refused: one answer for all, no write before the signature is valid, and hostile issuers."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chalicelib import ids
from chalicelib.federation import issuer_keys
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, Write
from tests.conftest import stored
from tests.federation import exchanges, forging, issuer_server, signing
from tests.federation import random_tokens as at_random
from tests.federation.exchanges import Issuer, assert_refused, error, exchange
from tests.federation.issuer_server import be_silent, response
from tests.queries import calls
from tests.transports import Answer, Client

READS = ["BatchGetItem"]
UNREACHABLE = "The issuer of the token cannot be reached. Try again later."
NAMES = [*forging.forge_tokens(signing.PAYLOAD)]


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Issuer]:
    with exchanges.serve_allowed_issuer(monkeypatch) as issuer:
        issuer.server.publish(signing.rsa_jwk(), signing.ec_jwk(), signing.ed_jwk())
        yield issuer


def usage(admin: Client, credential: str) -> dict[str, Any]:
    usage: dict[str, Any] = admin.get(f"/federated_credentials/{credential}/usage").json
    return usage


def reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [json.loads(record.message) for record in caplog.records]
    return [line["refused"] for line in lines if "refused" in line]


def test_forged_tokens_have_one_answer_and_cause_no_write(
    admin: Client, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    credential = issuer.credential(admin)["id"]
    payload = issuer.payload(credential)
    assert exchange(admin, signing.token(payload=payload), credential).status == 200
    forgeries = forging.forge_tokens(payload)
    texts = set()
    for name in NAMES:
        text, _ = forgeries[name]
        with calls() as operations:
            answer = exchange(admin, text or ".", credential)
        assert_refused(answer)
        assert [*operations] in ([], READS), name
        texts.add(answer.text.replace(answer.headers["operation-id"], "op"))
    assert len(texts) == 1
    assert reasons(caplog) == [forgeries[name][1] for name in NAMES]
    assert usage(admin, credential)["last_refusal"] is None


def test_an_unknown_kid_writes_only_the_turn_and_the_keys_of_its_issuer(admin: Client, issuer: Issuer) -> None:
    credential = issuer.credential(admin)["id"]
    assert exchange(admin, issuer.token(credential), credential).status == 200
    unknown = signing.token({**signing.HEADER, "kid": "unknown"}, issuer.payload(credential))

    def record_calls() -> list[str]:
        with calls() as operations:
            exchange(admin, unknown, credential)
        return operations

    assert record_calls() == READS  # the last fetch was less than a minute ago
    _age(issuer, issuer_keys.PAUSE)
    before = _copy_records()
    assert [record_calls() for _ in range(20)] == [[*READS, "UpdateItem", "PutItem"], *[READS] * 19]
    _age(issuer, issuer_keys.PAUSE)
    issuer.server.answers[KEYS] = response("503 Service Unavailable")
    assert record_calls() == [*READS, "UpdateItem"]
    after = _copy_records()
    scopes = [scope for scope in before | after if before.get(scope) != after.get(scope)]
    assert scopes == [issuer_keys.key_of(issuer.url)[0]]


def _copy_records() -> dict[str, str]:
    """Return a copy of all records, as text by scope."""
    return {scope: repr([*records.values()]) for scope, records in stored().items()}


DISCOVERY, KEYS = "/.well-known/openid-configuration", "/keys"


def hostile(answers: dict[str, issuer_server.Answer]) -> Callable[[Issuer, str], None]:
    return lambda issuer, _other: issuer.server.answers.update(answers)


def publish(**members: Any) -> Callable[[Issuer, str], None]:
    def change(issuer: Issuer, other: str) -> None:
        words = {name: value.replace("OTHER", other) for name, value in members.items()}
        issuer.server.documents[DISCOVERY] |= words

    return change


def redirect(issuer: Issuer, other: str) -> None:
    issuer.server.answers[DISCOVERY] = response("302 Found", b"", f"Location: {other}{DISCOVERY}")


@pytest.mark.parametrize(
    "change",
    [
        redirect,
        hostile({DISCOVERY: response("503 Service Unavailable")}),
        hostile({KEYS: response("200 OK", b"x" * 10_000_000)}),
        hostile({DISCOVERY: be_silent}),
        hostile({KEYS: be_silent}),
        hostile({KEYS: response("200 OK", b"[]")}),
        hostile({KEYS: response("200 OK", b"\xff")}),
        publish(issuer="https://other.example"),
        publish(jwks_uri="OTHER/keys"),
        publish(jwks_uri="http://127.0.0.2:1/keys"),
        publish(jwks_uri="https://localhost:1/keys"),
        publish(jwks_uri="file:///etc/passwd"),
    ],
)
def test_a_hostile_issuer_is_unreachable_within_eight_seconds(
    admin: Client, issuer: Issuer, change: Callable[[Issuer, str], None]
) -> None:
    credential = issuer.credential(admin)["id"]
    with issuer_server.serve_issuer() as other:
        change(issuer, other.url)
        started = time.monotonic()
        answer = exchange(admin, issuer.token(credential), credential)
        seconds = time.monotonic() - started
    assert (answer.status, answer.json) == (503, error(answer, "temporarily_unavailable", "unavailable", UNREACHABLE))
    assert seconds < 8
    assert other.connections == 0


def test_keys_rotate_without_a_pause(admin: Client, issuer: Issuer) -> None:
    credential = issuer.credential(admin)["id"]
    issuer.server.publish(signing.ec_jwk())
    es256 = signing.token({"alg": "ES256", "kid": "ec"}, issuer.payload(credential), signing.sign_es256)
    assert exchange(admin, es256, credential).status == 200
    issuer.server.publish(signing.rsa_jwk())
    answers: Sequence[Answer] = [exchange(admin, issuer.token(credential), credential) for _ in range(20)]
    assert {answer.status for answer in answers} == {400}  # at most one fetch a minute
    assert issuer.server.paths == [DISCOVERY, KEYS]
    _age(issuer, 60)
    assert exchange(admin, issuer.token(credential), credential).status == 200
    assert issuer.server.paths == [DISCOVERY, KEYS] * 2


def _age(issuer: Issuer, seconds: int) -> None:
    """Make the cached keys older."""
    key = issuer_keys.key_of(issuer.url)
    record = dynamodb.get(*key) or {}
    times = {"turn": record["turn"] - seconds, "body.fetched": record["body"]["fetched"] - seconds}
    dynamodb.do(Write.update(*key, Condition(""), sets=times))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    odd=at_random.HEADERS,
    changed=st.fixed_dictionaries({}, optional=at_random.MEMBERS),
    signer=st.sampled_from(sorted(at_random.SIGNERS)),
)
def test_a_token_at_random_passes_only_if_the_rules_accept_it(
    admin: Client, issuer: Issuer, odd: dict[str, Any], changed: dict[str, Any], signer: str
) -> None:
    credential, now = _credential(admin, issuer), int(time.time())
    header = {**signing.HEADER, "alg": signer, "kid": at_random.KIDS[signer], **odd}
    good = {"email": "ada@example.com", "email_verified": True, "jti": ids.new("op")}
    payload = issuer.payload(credential, **good) | changed
    claims = {name: _shift_time(value, now - signing.NOW) for name, value in payload.items()}
    with suppress(UnicodeEncodeError):
        text = signing.token(header, json.dumps(claims), at_random.SIGNERS[signer])
        answer = exchange(admin, text, credential)
        required_claims = {"iss": signing.ISSUER, "aud": signing.AUDIENCE} | {name: payload[name] for name in changed}
        times = {name: payload[name] for name in ("exp", "iat", "nbf") if name in changed}
        restated = {**signing.PAYLOAD, **good, **required_claims, **times}
        if "iss" in changed or "aud" in changed:
            restated["iss"] = "another"  # none of the drawn ones is this issuer or credential
        is_good = at_random.is_acceptable(header, restated, signer, False)
        assert answer.status == (200 if is_good and answer.status == 200 else 400)


def _shift_time(value: Any, seconds: int) -> Any:
    """Return a time near that of the other tests as one near now."""
    is_near = type(value) in (int, float) and abs(value - signing.NOW) < 1_000_000
    return value + seconds if is_near else value


def _credential(admin: Client, issuer: Issuer) -> str:
    credentials = admin.get("/federated_credentials").json["federated_credentials"]
    fields = {"claims": {"repository_id": "74"}, "owner_claim": "email", "provision": True, "single_use": True}
    return str(credentials[0]["id"] if credentials else issuer.credential(admin, **fields)["id"])
