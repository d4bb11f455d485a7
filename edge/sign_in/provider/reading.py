"""Parses a provider's answers about a user, and selects the e-mail addresses that count as verified.

The functions do no I/O except through the function `ask` that they receive.
"""

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from chalicelib.model.edges.sign_in_rules import SignInRule
from edge.sign_in.provider.facts import Facts, fold, is_address
from edge.sign_in.provider.provider_table import Provider

_PERSONAL_TENANT = "9188040d-6c67-4c5b-b112-36a304b66dad"  # the tenant of personal Microsoft accounts
_MAX_PAGES = 100
_PER_PAGE = 100
_MAX_NAME, _MAX_ID = 200, 255  # the most characters of a user's name and of an id


class UnreadableAnswer(Exception):
    """A provider's answer lacks a field, which the message names."""


class Ask(Protocol):
    """Sends a GET request to a provider with the user's access token, and returns the decoded JSON."""

    def __call__(self, url: str, parameters: Mapping[str, str] = {}, /) -> Awaitable[Any]:
        """Return the decoded JSON of the answer to a GET request."""


@dataclass(frozen=True)
class ProviderAnswer:
    """The tokens that a provider has sent for an authorization code or a refresh token.

    `claims` are the claims of the id token, or None if the provider sent no id token. `secret` is the client secret of
    the OAuth application, with which requests to Facebook are signed.
    """

    provider: Provider
    access_token: str
    claims: Mapping[str, Any] | None
    secret: str


async def read_facts(answer: ProviderAnswer, rule: SignInRule, ask: Ask) -> Facts:
    """Return a provider's facts about a user, short enough for a record. Raises UnreadableAnswer, and errors of `ask`.

    Malformed e-mail addresses are left out.
    """
    facts = await _READERS[answer.provider.name](answer, rule, ask)
    addresses = tuple(filter(is_address, facts.addresses))[:_PER_PAGE]
    return replace(facts, addresses=addresses, name=facts.name[:_MAX_NAME])


async def _github(answer: ProviderAnswer, rule: SignInRule, ask: Ask) -> Facts:
    base = answer.provider.facts
    user = _object(await ask(f"{base}/user"))
    emails = await ask(f"{base}/user/emails", {"per_page": str(_PER_PAGE)})
    addresses = [str(email.get("email", "")) for email in _objects(emails) if email.get("verified") is True]
    organizations, teams = set[str](), set[str]()
    if rule.teams or rule.organizations:
        organizations = {
            fold(str(_object(membership.get("organization")).get("login", "")))
            for membership in await _pages(f"{base}/user/memberships/orgs", ask)
            if membership.get("state") == "active"
        }
    if rule.teams:
        teams = {
            f"{owner}/{team.get('slug', '')}"
            for team in await _pages(f"{base}/user/teams", ask)
            if fold(owner := str(_object(team.get("organization")).get("login", ""))) in organizations
        }
    name = user.get("name") or user.get("login")
    return Facts(
        _subject(user.get("id")),
        tuple(addresses),
        _text(name),
        _select(teams, rule.teams),
        _select(organizations, rule.organizations),
    )


async def _pages(url: str, ask: Ask) -> list[Mapping[str, Any]]:
    """Return all objects of a paginated list in GitHub's API."""
    objects: list[Mapping[str, Any]] = []
    for page in range(1, _MAX_PAGES + 1):
        batch = _objects(await ask(url, {"per_page": str(_PER_PAGE), "page": str(page)}))
        objects += batch
        if len(batch) < _PER_PAGE:
            break
    return objects


async def _id_token(answer: ProviderAnswer, rule: SignInRule, ask: Ask) -> Facts:
    """Return the facts from the id token.

    If a refresh returned no id token, read the facts from the provider's userinfo endpoint.
    """
    return _openid(answer.claims if answer.claims is not None else _object(await ask(answer.provider.facts)))


async def _microsoft(answer: ProviderAnswer, rule: SignInRule, ask: Ask) -> Facts:
    if answer.claims is None:
        raise UnreadableAnswer("id_token")
    claims = answer.claims
    return Facts(_subject(claims.get("sub")), _microsoft_addresses(claims), _text(claims.get("name")))


def _microsoft_addresses(claims: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the e-mail address that counts as verified, if any.

    The claim `email` counts only for personal accounts or with `xms_edov`, since tenants can set it to any value.
    """
    email = _text(claims.get("email"))
    if claims.get("tid") == _PERSONAL_TENANT or claims.get("xms_edov") is True:
        return (email,) if email else ()
    name = _text(claims.get("preferred_username"))
    if "xms_edov" not in claims and name and "#EXT#" not in name.upper():
        return (name,)
    return ()


async def _userinfo(answer: ProviderAnswer, rule: SignInRule, ask: Ask) -> Facts:
    user = _object(await ask(answer.provider.facts))
    if answer.claims is not None and user.get("sub") != answer.claims.get("sub"):
        raise UnreadableAnswer("sub")
    return _openid(user)


async def _facebook(answer: ProviderAnswer, rule: SignInRule, ask: Ask) -> Facts:
    proof = hmac.new(answer.secret.encode(), answer.access_token.encode(), hashlib.sha256).hexdigest()
    user = _object(await ask(answer.provider.facts, {"fields": "id,name,email", "appsecret_proof": proof}))
    return _read_user(user, "id")


async def _amazon(answer: ProviderAnswer, rule: SignInRule, ask: Ask) -> Facts:
    return _read_user(_object(await ask(answer.provider.facts)), "user_id")


_READERS: Mapping[str, Callable[[ProviderAnswer, SignInRule, Ask], Awaitable[Facts]]] = {
    "github": _github,
    "google": _id_token,
    "microsoft": _microsoft,
    "gitlab": _userinfo,
    "linkedin": _userinfo,
    "twitch": _userinfo,
    "facebook": _facebook,
    "amazon": _amazon,
}


def _openid(claims: Mapping[str, Any]) -> Facts:
    """Return the facts from OpenID claims. The address counts only if `email_verified` is the JSON value true."""
    email = _text(claims.get("email")) if claims.get("email_verified") is True else ""
    name = claims.get("name") or claims.get("preferred_username")
    return Facts(_subject(claims.get("sub")), (email,) if email else (), _text(name))


def _read_user(user: Mapping[str, Any], id: str) -> Facts:
    """Return the facts from a provider that does not report whether an e-mail address is verified.

    The address counts as verified.
    """
    email = _text(user.get("email"))
    return Facts(_subject(user.get(id)), (email,) if email else (), _text(user.get("name")))


def _select(names: set[str], listed: tuple[str, ...]) -> tuple[str, ...]:
    folded = set(map(fold, listed))
    return tuple(sorted(name for name in names if fold(name) in folded))


def _subject(value: object) -> str:
    if isinstance(value, str | int) and not isinstance(value, bool) and 0 < len(str(value)) <= _MAX_ID:
        return str(value)
    raise UnreadableAnswer("the user's id")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UnreadableAnswer("an object")
    return value


def _objects(value: object) -> list[Mapping[str, Any]]:
    if not isinstance(value, list):
        raise UnreadableAnswer("a list")
    return [_object(entry) for entry in value]
