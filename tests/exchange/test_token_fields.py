"""The parameters of POST /tokens: their bounds, and the errors that name them."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.federation import exchanges
from tests.federation.exchanges import Issuer, error, exchange, exchange_form
from tests.transports import Client


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Issuer]:
    with exchanges.serve_allowed_issuer(monkeypatch) as issuer:
        yield issuer


SCOPE = (
    "must be '*', '*:read', <collection>:<right> or <collection>:<right>@<id>, for example edges:read; "
    "the rights are read, write, create and revoke"
)


KNOWN = (
    "is not accepted here; accepted: grant_type, subject_token, subject_token_type, audience, scope, "
    "requested_token_type, lifetime, client_id, certificate"
)


BEYOND = "must contain only scopes that the federated credential covers; it does not cover 'edges:read'"


GRANT_TYPE = f"must be one of '{exchanges.GRANT}'"


@pytest.mark.parametrize(
    ("more", "name", "details"),
    [
        ({"grant_type": None}, "invalid_request", {"grant_type": "is required"}),
        ({"grant_type": "client_credentials"}, "unsupported_grant_type", {"grant_type": GRANT_TYPE}),
        ({"audience": None}, "invalid_request", {"audience": "is required"}),
        ({"resource": "https://a.example"}, "invalid_request", {"resource": KNOWN}),
        ({"actor_token": "a"}, "invalid_request", {"actor_token": KNOWN}),
        ({"scope": "edges:read"}, "invalid_scope", {"scope": BEYOND}),
        ({"scope": "backends:read edges"}, "invalid_scope", {"scope": SCOPE}),
        ({"scope": " "}, "invalid_scope", {"scope": SCOPE}),
        ({"lifetime": 59}, "invalid_request", {"lifetime": "must be at least 60"}),
        ({"lifetime": "60"}, "invalid_request", {"lifetime": "must be an integer"}),
        ({"client_id": "none"}, "invalid_request", {"client_id": "must be absent, or the same as audience"}),
        (
            {"lifetime": 901},
            "invalid_request",
            {"lifetime": "must be at most 900, the max_lifetime of the federated credential"},
        ),
    ],
)
def test_a_malformed_request_has_an_error_of_both_kinds(
    admin: Client, issuer: Issuer, more: dict[str, Any], name: str, details: dict[str, str]
) -> None:
    credential = issuer.credential(admin)["id"]
    answer = exchange(admin, issuer.token(credential), credential, **more)
    (field, rule), *_ = details.items()
    assert (answer.status, answer.json) == (
        400,
        error(answer, name, "invalid_request", f"'{field}' {rule}.", **details),
    )


def test_a_client_without_a_secret_can_send_the_audience_as_its_id(admin: Client, issuer: Issuer) -> None:
    credential = issuer.credential(admin)["id"]
    for send_as in (exchange, exchange_form):
        assert send_as(admin, issuer.token(credential), credential, client_id=credential).status == 200
        assert send_as(admin, issuer.token(credential), credential, client_id="").status == 200
        other = send_as(admin, issuer.token(credential), credential, client_id=f"{credential}x")
        assert (other.status, other.json["error"]) == (400, "invalid_request")
