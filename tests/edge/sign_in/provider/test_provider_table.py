"""The rows of the identity providers."""

from urllib.parse import parse_qs, urlsplit

import pytest

from chalicelib.model.edges.sign_in_rules import SignInRule
from chalicelib.modules.oauth import EndpointOAuthProvider
from chalicelib.schema import shapes
from edge.sign_in.provider.provider_table import PROVIDERS, TITLES, build_authorize_url


def query(name: str, rule: SignInRule, *, fresh: bool = False) -> dict[str, str]:
    url = build_authorize_url(
        PROVIDERS[name],
        rule,
        client_id="id",
        redirect_uri="https://sign-in.example/callback",
        state="s&t",
        nonce="n",
        challenge="c",
        fresh=fresh,
    )
    return {key: value for key, (value,) in parse_qs(urlsplit(url).query).items()}


def test_every_provider_has_a_title_and_can_have_an_application() -> None:
    assert [*PROVIDERS] == [*TITLES]
    assert {*PROVIDERS} == shapes.names(EndpointOAuthProvider)


@pytest.mark.parametrize("name", PROVIDERS)
def test_endpoints_are_https_and_requests_carry_what_the_row_says(name: str) -> None:
    provider = PROVIDERS[name]
    assert all(url.startswith("https://") for url in (provider.authorize, provider.token, provider.facts))
    parameters = query(name, SignInRule(name, "digest"), fresh=True)
    expected = {
        "response_type": "code",
        "client_id": "id",
        "redirect_uri": "https://sign-in.example/callback",
        "scope": " ".join(provider.scopes),
        "state": "s&t",
        **({"nonce": "n"} if provider.has_nonce else {}),
        **({"code_challenge": "c", "code_challenge_method": "S256"} if provider.has_pkce else {}),
    }
    assert parameters == {**expected, **provider.authorize_parameters, **provider.fresh_parameters}


def test_scopes_are_added_and_never_removed() -> None:
    assert query("github", SignInRule("github", "d", teams=("a/b",)))["scope"] == "user:email read:org"
    assert (
        query("google", SignInRule("google", "d", scopes=("drive", "openid")))["scope"] == "openid email profile drive"
    )
