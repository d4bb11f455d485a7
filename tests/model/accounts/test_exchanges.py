"""Verification of a token against its credential: what is read, fetched and used once."""

from collections.abc import Iterator
from typing import Any

import pytest

from chalicelib import ids
from tests.federation import exchanges, issuer_server, signing
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


def test_an_unknown_credential_has_the_same_answer(admin: Client, issuer: Issuer) -> None:
    credential = issuer.credential(admin)["id"]
    token = issuer.token(credential)
    for audience in (ids.new("fcred"), ids.new("ak"), "a", f"{credential} ", f"{credential}#", "\ud7ff" * 2000):
        with calls() as operations:
            assert_refused(exchange(admin, token, audience))
        assert operations in ([], READS)


def test_a_disabled_credential_is_refused_before_its_issuer_is_asked(admin: Client, issuer: Issuer) -> None:
    credential = issuer.credential(admin, enabled=False)["id"]
    assert_refused(exchange(admin, issuer.token(credential), credential))
    assert issuer.server.connections == 0
    assert usage(admin, credential)["last_refusal"] is None


def test_a_stranger_does_not_choose_what_is_fetched(admin: Client, issuer: Issuer) -> None:
    credential = issuer.credential(admin)["id"]
    with issuer_server.serve_issuer() as other:
        assert_refused(exchange(admin, issuer.token(credential, iss=other.url), credential))
        assert_refused(exchange(admin, issuer.token(credential, iss=f"{issuer.url}/"), credential))
    assert (other.connections, issuer.server.connections) == (0, 0)


def test_an_issuer_that_is_not_allowed_any_more_is_refused(
    admin: Client, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    credential = issuer.credential(admin)["id"]
    monkeypatch.setenv("OIDC_ISSUERS", "https://token.actions.githubusercontent.com")
    assert_refused(exchange(admin, issuer.token(credential), credential))
    assert issuer.server.connections == 0


def test_a_token_can_be_limited_to_one_exchange(admin: Client, issuer: Issuer) -> None:
    credential = issuer.credential(admin, single_use=True)["id"]
    token = issuer.token(credential, jti="once")
    assert exchange(admin, token, credential).status == 200
    assert_refused(exchange(admin, token, credential))
    assert usage(admin, credential)["last_refusal"]["reason"] == "single_use"
    assert exchange(admin, issuer.token(credential, jti="twice"), credential).status == 200
