"""The bounds that the rules of an account set for new keys."""

import pytest

from chalicelib.model.accounts import key_rules
from chalicelib.model.accounts.api_keys import KeyLimits
from chalicelib.model.accounts.key_rules import ApiKeyRules

CREATED = 1_000


def limits(expires: int | None, scopes: list[str], networks: list[str]) -> KeyLimits:
    return KeyLimits(expires=expires, scopes=(*scopes,), networks=(*networks,))


ALL = ApiKeyRules(enabled=True, max_lifetime=60, require_scopes=True, allowed_networks=["10.0.0.0/8"])


@pytest.mark.parametrize(
    ("limits", "broken"),
    [
        (limits(CREATED + 60, ["users:read"], ["10.1.0.0/16"]), []),
        (limits(CREATED + 61, ["users:read"], ["10.1.0.0/16"]), ["expires_at"]),
        (limits(None, ["users:read"], ["10.1.0.0/16"]), ["expires_at"]),
        (limits(CREATED, ["*"], ["10.1.0.0/16"]), ["scopes"]),
        (limits(CREATED, [], ["10.1.0.0/16"]), ["scopes"]),
        (limits(CREATED, ["users:read"], ["11.0.0.0/8"]), ["allowed_networks"]),
        (limits(None, [], ["0.0.0.0/0"]), ["expires_at", "scopes", "allowed_networks"]),
    ],
)
def test_a_key_beyond_the_rules_breaks_each_of_them(limits: KeyLimits, broken: list[str]) -> None:
    assert [*key_rules.find_violations(ALL, limits, CREATED)] == broken
    assert key_rules.find_violations(ApiKeyRules(enabled=True), limits, CREATED) == {}
