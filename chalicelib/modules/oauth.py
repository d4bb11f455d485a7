"""The OAuth module of HTTPS edge routes (SPEC 2.9). Only users of an identity provider may pass.

The client secret of an OAuth app is encrypted like every secret. It is decrypted only for keys that may write edges.
"""

import inspect
from collections.abc import Mapping
from typing import Annotated, Any

from chalicelib.http.endpoints import NO_STORE, Call
from chalicelib.http.module import Enabled, Module, forbid_modules
from chalicelib.model.edges.enforced import enforced_modules
from chalicelib.model.edges.modules.oauth import MODULE, OAuthModule
from chalicelib.schema.fields import DOMAIN, SECRET, Domain, Name, Text
from chalicelib.schema.rules import After, WithData, between, entries, form, if_empty, if_null, max_bytes, max_encoded
from chalicelib.schema.shapes import Shape
from chalicelib.storage import vault
from chalicelib.storage.records import items
from chalicelib.storage.records.items import Item

_LOCAL = r'[^\x00-\x20\x7f@"(),:;<>\[\]\\]{1,64}'
_MAX_PROVIDER = 16 * 1024
_SLUG = "[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"

Email = Annotated[
    str, form(rf"{_LOCAL}@{DOMAIN}", "must be an e-mail address, for example ada@example.com", max_length=254)
]
Team = Annotated[str, form(f"{_SLUG}/{_SLUG}", "must be of the form <org-slug>/<team-slug>"), max_bytes(255)]
Organization = Annotated[str, form(_SLUG, "must be the slug of an organization, for example acme-inc"), max_bytes(255)]
Seconds = Annotated[int, between(0, 2**32 - 1), if_null(0)]
CookiePrefix = Annotated[str, form("[A-Za-z0-9.]{1,64}", "must be 1 to 64 letters, digits and dots")]


def _require_both_or_none(secret: str, above: Mapping[str, Any]) -> str:
    if bool(secret) != bool(above.get("client_id", secret)):
        raise ValueError("must be given together with client_id, or not at all")
    return secret


def _require_app(scopes: list[str], above: Mapping[str, Any]) -> list[str]:
    if scopes and not (above.get("client_id", "?") and above.get("client_secret", "?")):
        raise ValueError("must be empty without client_id and client_secret")
    return scopes


class OAuthProvider(Shape):
    """An identity provider, and the users that may pass."""

    # by default, pydantic does not validate default values: client_id would be accepted without client_secret
    model_config = {"validate_default": True}

    client_id: Annotated[Text, max_bytes(1024)] = ""
    """Client ID of an OAuth app. Default: the service's own managed OAuth app, with restrictions.

    If it is present, client_secret must be present too.
    """

    client_secret: Annotated[Text, SECRET, max_bytes(1024), WithData(_require_both_or_none)] = ""
    """Client secret of the OAuth app; only together with client_id. In responses it is `""` for API keys without the
    scope `edges:write` for the edge.
    """

    scopes: Annotated[list[Name], entries(0, 100), if_null([]), WithData(_require_app)] = []
    """OAuth scopes of the provider. They require client_id and client_secret."""

    email_addresses: Annotated[list[Email], entries(0, 1000), if_null([])] = []
    """Email addresses of users that may pass."""

    email_domains: Annotated[list[Domain], entries(0, 1000), if_null([])] = []
    """Email domains of users that may pass."""


class GitHubOAuthProvider(OAuthProvider):
    """GitHub as identity provider, and the users that may pass."""

    teams: Annotated[list[Team], entries(0, 1000), if_null([])] = []
    """Members of any of these teams may pass. A team is written `<org-slug>/<team-slug>`."""

    organizations: Annotated[list[Organization], entries(0, 1000), if_null([])] = []
    """Members of any of these organizations may pass. An organization is its slug."""


class EndpointOAuthProvider(Shape):
    """Exactly one identity provider; the others are null."""

    github: GitHubOAuthProvider | None = None
    """GitHub as identity provider."""

    facebook: OAuthProvider | None = None
    """Facebook as identity provider."""

    microsoft: OAuthProvider | None = None
    """Microsoft as identity provider."""

    google: OAuthProvider | None = None
    """Google as identity provider."""

    linkedin: OAuthProvider | None = None
    """LinkedIn as identity provider."""

    gitlab: OAuthProvider | None = None
    """GitLab as identity provider."""

    twitch: OAuthProvider | None = None
    """Twitch as identity provider."""

    amazon: OAuthProvider | None = None
    """Amazon as identity provider."""


# Responses contain every provider. A record can lack a provider that a later version of this file has added.
_UNSET = dict.fromkeys(inspect.get_annotations(EndpointOAuthProvider))


def _require_one(providers: EndpointOAuthProvider) -> EndpointOAuthProvider:
    if len([provider for provider in vars(providers).values() if provider]) != 1:
        raise ValueError(f"must name exactly one of {', '.join(vars(providers))}")
    return providers


class OAuth(Enabled):
    """Admits only users who have logged in at an identity provider."""

    provider: Annotated[EndpointOAuthProvider, After(_require_one), max_encoded(_MAX_PROVIDER)]
    f"""Identity provider configuration: exactly one.

    At most {_MAX_PROVIDER:,} characters as JSON in ASCII, with each quote and backslash counted twice: about 500
    addresses of 25 letters.
    """

    options_passthrough: Annotated[bool, if_null(False)] = False
    """True: HTTP OPTIONS requests pass without authentication, as CORS requires."""

    cookie_prefix: Annotated[CookiePrefix, if_empty("service.")] = "service."
    """Prefix of the names of session cookies."""

    inactivity_timeout: Seconds = 0
    """Seconds of inactivity after which the user must log in again."""

    maximum_duration: Seconds = 0
    """Seconds after which a session ends and the user must log in again."""

    auth_check_interval: Seconds = 0
    """Seconds after which the user's state is read again from the identity provider and checked.

    This is the preferred way to limit how long a revoked user keeps access.
    """


def _build_response(module: OAuthModule, route: Item, call: Call) -> dict[str, Any]:
    context = vault.context(route.account, route.id)
    edge = (items.find_parent(route.scope) or ("", ""))[1]
    sees_secret = call.caller.limits.covers(f"edges:write@{edge}")  # may replace the secret, so may see it
    providers = {
        name: provider
        and {**provider.to_record(), "client_secret": provider.open_secret(context) if sees_secret else ""}
        for name, provider in module.provider.items()
    }
    return {**vars(module), "provider": {**_UNSET, **providers}}


MODULES = tuple(
    Module(
        path=path,
        shape=OAuth,
        stored=MODULE.stored,
        to_response=_build_response,
        headers=NO_STORE,
        conflicts=forbid_modules(enforced_modules.list_excluded(MODULE.name), "provider"),
    )
    for path in MODULE.paths
)
