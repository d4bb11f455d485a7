"""The usage of federated credentials: refusals with a reason, once a minute, and exchanges."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.federation import exchanges, signing
from tests.federation.exchanges import Issuer, assert_refused, exchange
from tests.queries import calls
from tests.transports import Client

READS = ["BatchGetItem"]


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Issuer]:
    with exchanges.serve_allowed_issuer(monkeypatch) as issuer:
        issuer.server.publish(signing.rsa_jwk(), signing.ec_jwk(), signing.ed_jwk())
        yield issuer


def usage(admin: Client, credential: str) -> dict[str, Any]:
    usage: dict[str, Any] = admin.get(f"/federated_credentials/{credential}/usage").json
    return usage


def test_a_refusal_after_the_signature_is_recorded_once_a_minute(admin: Client, issuer: Issuer) -> None:
    claims = {"repository_id": "74", "ref": "refs/heads/main"}
    credential = issuer.credential(admin, claims=claims)["id"]
    assert usage(admin, credential) == {
        "last_used_at": None,
        "exchanges_last_hour": 0,
        "refused_last_hour": 0,
        "last_refusal": None,
    }
    with calls() as operations:
        for _ in range(3):
            assert_refused(exchange(admin, issuer.token(credential, ref="refs/heads/evil"), credential))
    fetched = ["BatchGetItem", "UpdateItem", "PutItem"]
    assert operations == [*fetched, "UpdateItem", *READS, *READS]
    assert exchange(admin, issuer.token(credential), credential).status == 200
    counts = usage(admin, credential)
    assert (counts["exchanges_last_hour"], counts["refused_last_hour"]) == (1, 1)
    assert counts["last_refusal"]["reason"] == "claim:ref"
    assert counts["last_used_at"] is not None


NOW = int(time.time())


@pytest.mark.parametrize(
    ("reason", "claims"),
    [
        ("audience", {"aud": "other"}),
        ("expired", {"iat": NOW - 4000, "nbf": NOW - 4000, "exp": NOW - 3600}),
        ("not_yet_valid", {"iat": NOW + 7200, "exp": NOW + 7500}),
        ("claim:exp", {"iat": NOW - 10, "exp": NOW + 48 * 3600}),
        ("claim:ref", {"ref": "refs/heads/main\n"}),
        ("claim:repository_id", {"repository_id": ["7", 4]}),
    ],
)
def test_an_admin_reads_the_reason(admin: Client, issuer: Issuer, reason: str, claims: dict[str, Any]) -> None:
    credential = issuer.credential(admin)["id"]
    assert_refused(exchange(admin, issuer.token(credential, **claims), credential))
    assert usage(admin, credential)["last_refusal"]["reason"] == reason
