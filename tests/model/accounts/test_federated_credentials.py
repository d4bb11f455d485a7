"""The record of a federated credential that an exchange reads."""

from chalicelib import ids
from chalicelib.model.accounts import federated_credentials
from chalicelib.model.accounts.federated_credentials import FederatedCredential, SignIn

FIELDS = {
    "issuer": "https://gitlab.com",
    "audiences": ["app"],
    "claims": {"project_id": "74"},
    "owner_id": "bot_a",
    "owner_claim": "",
    "provision": False,
    "scopes": ["edges:read"],
    "max_lifetime": 900,
    "single_use": True,
    "enabled": True,
}
STORED = FederatedCredential.of({**FIELDS, "description": "deploys", "sign_in": SignIn(client_id="app")})


def test_an_exchange_reads_all_rules_but_no_texts() -> None:
    id = ids.new("fcred")
    (key,) = STORED.unique_keys("acct_a", id)
    assert (key.scope, dict(key.attributes)) == (f"federated#{id[6:]}", {"account": "acct_a", **FIELDS})


def test_the_size_is_in_bytes() -> None:
    (key,) = FederatedCredential(claims={"ä": "ö"}).unique_keys("acct_a", ids.new("fcred"))
    (shorter,) = FederatedCredential(claims={"a": "o"}).unique_keys("acct_a", ids.new("fcred"))
    assert federated_credentials.size(key) == federated_credentials.size(shorter) + 2


def test_only_an_owner_with_an_id_is_referred_to() -> None:
    assert STORED.references() == {"owner_id": ["bot_a"]}
    assert FederatedCredential(owner_claim="email").references() == {}
