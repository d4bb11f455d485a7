"""OIDC_ISSUERS: patterns, forms of issuers, and tenant claims."""

import pytest

from chalicelib.federation import issuers

GITHUB = "https://token.actions.githubusercontent.com"
ALLOWED = [
    GITHUB,
    "https://gitlab.com",
    "https://agent.buildkite.com",
    "https://accounts.google.com",
    "https://login.microsoftonline.com/72f988bf-86f1-41af-91ab-2d7cd011db47/v2.0",
    "https://example.okta.com",
    "https://example.okta.com/oauth2/default",
    "https://example.auth0.com/",
    "https://example.eu.auth0.com/",
    "https://oidc.eks.eu-west-1.amazonaws.com/id/0123456789ABCDEF0123456789ABCDEF",
]
REJECTED = [
    "",
    "http://gitlab.com",
    "https://gitlab.com/",
    "https://gitlab.com:443",
    "https://gitlab.com:8443",
    "https://user@gitlab.com",
    "https://gitlab.com?a=b",
    "https://gitlab.com#a",
    "https://gitlab.com\n",
    "https://GITLAB.com",
    "https://a.b.okta.com",
    "https://example.okta.com/oauth2/a/b",
    "https://example.okta.com/oauth2/",
    "https://example.okta.com/oauth2/..",
    "https://evil.com/.okta.com",
    "https://oktaXcom",
    "https://login.microsoftonline.com/common/v2.0",
    "https://login.microsoftonline.com/Organizations/v2.0",
    "https://login.microsoftonline.com/consumers/v2.0",
    "https://login.microsoftonline.com/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0",
    "https://127.0.0.1:8443",
    "http://127.0.0.1:8080",
    f"https://example.okta.com/oauth2/{'a' * 255}",
]


@pytest.mark.parametrize("issuer", ALLOWED)
def test_the_default_allows_known_issuers(issuer: str) -> None:
    assert issuers.find_problem(issuer) is None


@pytest.mark.parametrize("issuer", REJECTED)
def test_other_issuers_are_rejected(issuer: str) -> None:
    assert issuers.find_problem(issuer) is not None


def test_a_loopback_issuer_must_be_named_literally(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OIDC_ISSUERS", "http://127.0.0.1:8080= https://127.0.0.1:8443/realms/*= http://*.0.0.1:9000=")
    allowed_urls = ["http://127.0.0.1:8080", "https://127.0.0.1:8443/realms/a"]
    urls = ["https://127.0.0.1:8080", "http://127.0.0.1:9000", "http://127.0.0.2:8080", "http://localhost:8080"]
    assert [issuers.find_problem(issuer) for issuer in allowed_urls] == [None, None]
    assert None not in [issuers.find_problem(issuer) for issuer in urls]
    assert [port for port in (8080, 8443, 9000, 80) if issuers.allows_loopback(port)] == [8080, 8443]


@pytest.mark.parametrize(
    ("issuer", "required", "missing"),
    [
        (GITHUB, {"repository_id": "74"}, []),
        (GITHUB, {"repository_owner_id": ["1", "2"], "ref": "*"}, []),
        (GITHUB, {"repository": "a/b"}, [("repository_id", "repository_owner_id")]),
        (GITHUB, {"repository_id": ["74", "7*"]}, [("repository_id", "repository_owner_id")]),
        (GITHUB, {"repository_id": []}, [("repository_id", "repository_owner_id")]),
        ("https://accounts.google.com", {"email": "a@example.com"}, [("hd", "sub")]),
        ("https://example.okta.com", {"groups": "*"}, []),
    ],
)
def test_a_tenant_claim_needs_a_pattern_without_star(
    issuer: str, required: dict[str, str | list[str]], missing: list[tuple[str, ...]]
) -> None:
    assert issuers.find_missing_tenant(issuer, required) == missing


def test_an_entry_without_claims_requires_sub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OIDC_ISSUERS", "https://sso.example.com")
    assert issuers.find_missing_tenant("https://sso.example.com", {"groups": "a"}) == [("sub",)]
    assert issuers.find_missing_tenant("https://sso.example.com", {"sub": "a"}) == []
