"""The eight identity providers: one row each. This file does no I/O.

A row has the provider's endpoints and scopes, and the protections that it supports. `reading` parses the answers
about users.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal
from urllib.parse import urlencode

from chalicelib.model.edges.sign_in_rules import SignInRule

Name = Literal["github", "google", "microsoft", "gitlab", "linkedin", "twitch", "facebook", "amazon"]


@dataclass(frozen=True)
class Provider:
    """An identity provider.

    `facts` is the endpoint that describes the user, or the base URL of GitHub's API. `issuer` is "" if the provider has
    no id tokens. `authorize_parameters` are part of every authorization request. `fresh_parameters` are added if the
    provider must show its sign-in page even to a user who is signed in there. If `has_refresh`, a recheck of a session
    uses the refresh token, else the access token. If `has_response_issuer`, redirects from the provider must have the
    parameter `iss` (RFC 9207).
    """

    name: Name
    authorize: str
    token: str
    facts: str
    scopes: tuple[str, ...]
    issuer: str = ""
    has_pkce: bool = False
    has_nonce: bool = False
    has_refresh: bool = False
    has_response_issuer: bool = False
    authorize_parameters: Mapping[str, str] = field(default_factory=dict)
    fresh_parameters: Mapping[str, str] = field(default_factory=dict)

    def scopes_for(self, rule: SignInRule) -> tuple[str, ...]:
        """Return the scopes to request: the provider's default scopes, and the scopes that an OAuth rule adds."""
        organization_scopes = ("read:org",) if self.name == "github" and (rule.teams or rule.organizations) else ()
        return tuple(dict.fromkeys([*self.scopes, *organization_scopes, *rule.scopes]))


_OPENID = ("openid", "email", "profile")
_TWITCH_CLAIMS = '{"id_token":{"email":null,"email_verified":null},"userinfo":{"email":null,"email_verified":null}}'

PROVIDERS: Mapping[str, Provider] = {
    provider.name: provider
    for provider in (
        Provider(
            "github",
            "https://github.com/login/oauth/authorize",
            "https://github.com/login/oauth/access_token",
            "https://api.github.com",
            ("user:email",),
            has_pkce=True,
        ),
        Provider(
            "google",
            "https://accounts.google.com/o/oauth2/v2/auth",
            "https://oauth2.googleapis.com/token",
            "https://openidconnect.googleapis.com/v1/userinfo",
            _OPENID,
            "https://accounts.google.com",
            has_pkce=True,
            has_nonce=True,
            has_refresh=True,
            authorize_parameters={"access_type": "offline"},
            fresh_parameters={"prompt": "select_account"},
        ),
        Provider(
            "microsoft",
            "https://login.microsoftonline.com/common/oauth2/v2.0/authorize",
            "https://login.microsoftonline.com/common/oauth2/v2.0/token",
            "https://graph.microsoft.com/oidc/userinfo",
            (*_OPENID, "offline_access"),
            "https://login.microsoftonline.com/{tid}/v2.0",
            has_pkce=True,
            has_nonce=True,
            has_refresh=True,
            fresh_parameters={"prompt": "login"},
        ),
        Provider(
            "gitlab",
            "https://gitlab.com/oauth/authorize",
            "https://gitlab.com/oauth/token",
            "https://gitlab.com/oauth/userinfo",
            _OPENID,
            "https://gitlab.com",
            has_pkce=True,
            has_nonce=True,
            has_refresh=True,
            has_response_issuer=True,
            fresh_parameters={"prompt": "login"},
        ),
        Provider(
            "linkedin",
            "https://www.linkedin.com/oauth/v2/authorization",
            "https://www.linkedin.com/oauth/v2/accessToken",
            "https://api.linkedin.com/v2/userinfo",
            _OPENID,
        ),
        Provider(
            "twitch",
            "https://id.twitch.tv/oauth2/authorize",
            "https://id.twitch.tv/oauth2/token",
            "https://id.twitch.tv/oauth2/userinfo",
            ("openid", "user:read:email"),
            "https://id.twitch.tv/oauth2",
            has_nonce=True,
            has_refresh=True,
            authorize_parameters={"claims": _TWITCH_CLAIMS},
            fresh_parameters={"force_verify": "true"},
        ),
        Provider(
            "facebook",
            "https://www.facebook.com/v23.0/dialog/oauth",
            "https://graph.facebook.com/v23.0/oauth/access_token",
            "https://graph.facebook.com/v23.0/me",
            ("email",),
            fresh_parameters={"auth_type": "reauthenticate"},
        ),
        Provider(
            "amazon",
            "https://www.amazon.com/ap/oa",
            "https://api.amazon.com/auth/o2/token",
            "https://api.amazon.com/user/profile",
            ("profile",),
            has_refresh=True,
        ),
    )
}

TITLES: Mapping[str, str] = {
    "github": "GitHub",
    "google": "Google",
    "microsoft": "Microsoft",
    "gitlab": "GitLab",
    "linkedin": "LinkedIn",
    "twitch": "Twitch",
    "facebook": "Facebook",
    "amazon": "Amazon",
}


def build_authorize_url(
    provider: Provider,
    rule: SignInRule,
    *,
    client_id: str,
    redirect_uri: str,
    state: str,
    nonce: str,
    challenge: str,
    fresh: bool,
) -> str:
    """Return the provider's URL that begins a sign-in. `challenge` is the PKCE challenge (S256)."""
    parameters = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "scope": " ".join(provider.scopes_for(rule)),
        "state": state,
        **({"nonce": nonce} if provider.has_nonce else {}),
        **({"code_challenge": challenge, "code_challenge_method": "S256"} if provider.has_pkce else {}),
        **provider.authorize_parameters,
        **(provider.fresh_parameters if fresh else {}),
    }
    return f"{provider.authorize}{'&' if '?' in provider.authorize else '?'}{urlencode(parameters)}"


def with_endpoints(endpoints: Mapping[str, Mapping[str, str]]) -> dict[str, Provider]:
    """Return the providers with replaced endpoints. `endpoints` is the validated content of OAUTH_ENDPOINTS."""
    return {name: _replace_endpoints(provider, endpoints.get(name, {})) for name, provider in PROVIDERS.items()}


def _replace_endpoints(provider: Provider, endpoints: Mapping[str, str]) -> Provider:
    facts = endpoints.get("api") or endpoints.get("userinfo") or provider.facts
    issuer = endpoints.get("issuer", "") if provider.issuer else ""
    return replace(
        provider,
        authorize=endpoints.get("authorize", provider.authorize),
        token=endpoints.get("token", provider.token),
        facts=facts,
        issuer=issuer or provider.issuer,
    )
