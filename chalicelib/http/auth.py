"""Authentication (SPEC 5, 9): the caller of a request, its account, and the owner rule.

Imports neither Chalice nor pydantic, so that the gateway's authorizer can use it.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chalicelib import ids
from chalicelib.http.errors import Forbidden, Unauthenticated, UnknownReference, UnsupportedVersion
from chalicelib.model import accounts, api_keys, kinds
from chalicelib.model.accounts import Owner
from chalicelib.model.api_keys import EVERYTHING, Holder, Reach

VERSIONS = ("2", "0")  # the current one first
VERSION_HEADER = "Service-Version"  # unless VERSION_HEADERS says otherwise
_BEARER = re.compile(r"Bearer +([0-9A-Za-z]{27}_[0-9A-Za-z_-]{1,100})", flags=re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class Caller:
    """The user or bot that sends a request, with its API key and API version.

    `key` is the id of the API key, or `operator` when the operator acts for the caller.
    """

    account: str
    id: str
    admin: bool
    version: str = VERSIONS[0]
    key: str = ""
    reach: Reach = EVERYTHING
    used: int = 0  # the Unix second of the last use of the key that was stored
    name: str = ""  # of the user or bot

    def scope(self, path: str) -> str:
        """Return the storage scope of a list in the caller's account.

        Requests reach the storage in no other way, so a caller never reaches another account.
        """
        return f"{self.account}#{path}"

    def owner(self, requested: str) -> Owner:
        """Return the owner of a resource that the caller creates (SPEC 5.4).

        "" is the caller. Only admins may name another owner.

        Raises Forbidden, UnknownReference, aws.Unavailable.
        """
        if requested in ("", self.id):
            return Owner(self.id, self.admin, name=self.name)  # an inactive caller could not call
        if not self.admin:
            raise Forbidden("Only an admin may name another owner.", {"owner_id": "must be absent or your own id"})
        owner = accounts.owner(self.account, requested)
        if owner is None:
            raise UnknownReference(
                "'owner_id' names no user or bot of this account.",
                {"owner_id": "must be the id of a user or bot of this account"},
            )
        return owner

    def as_context(self) -> dict[str, str]:
        """Return the caller as the authorizer's context, which the gateway hands to the app: strings only."""
        return {
            "account": self.account,
            "caller": self.id,
            "admin": "true" if self.admin else "false",
            "version": self.version,
            "key": self.key,
            "scopes": " ".join(self.reach.scopes),
            "expires": str(self.reach.expires or ""),
            "used": str(self.used),
            "name": self.name,
        }

    @staticmethod
    def from_context(context: Mapping[str, str]) -> "Caller":
        """Return the caller from the context that `as_context` made."""
        admin, key, expires = context["admin"] == "true", context.get("key", ""), context.get("expires", "")
        reach = Reach(tuple(context.get("scopes", "").split()), int(expires) if expires else None)
        used = int(context.get("used", "0"))
        name = context.get("name", "")
        return Caller(context["account"], context["caller"], admin, context["version"], key, reach, used, name)


ANONYMOUS = Caller(account="", id="", admin=False)  # the caller of open endpoints, which has no account


def authenticate(headers: Mapping[str, str]) -> Caller:
    """Return the caller that a request's headers authenticate.

    Names of headers match in any case. Raises Unauthenticated, then UnsupportedVersion; aws.Unavailable.
    """
    lowered = {name.lower(): value for name, value in headers.items()}
    holder = _holder(_token(lowered.get("authorization", "")))
    owner, version = holder.owner, _version(lowered)
    return Caller(holder.account, owner.id, owner.admin, version, holder.key, holder.reach, holder.used, owner.name)


def check_scope(caller: Caller, method: str, path: str) -> None:
    """Raise Forbidden if the caller's API key lacks the required scope."""
    scope = api_keys.wanted_scope(method, path)
    if scope and not caller.reach.covers(scope):
        raise Forbidden(f"This API key lacks the scope {scope}.")


def admins(caller: Caller) -> None:
    """Permit only admins to see and change bots. Raises Forbidden."""
    if not caller.admin:
        raise Forbidden("Only an admin may see and change bots.")


def version_headers() -> list[str]:
    """Return the names of the headers that may carry the version.

    The OpenAPI document names only the first.
    """
    return [name.strip() for name in (os.environ.get("VERSION_HEADERS") or VERSION_HEADER).split(",")]


def _token(authorization: str) -> str:
    text = authorization.strip(" \t")
    form = _BEARER.fullmatch(text)
    if not form:
        raise Unauthenticated(f"{_diagnose(text)}Send the header 'Authorization: Bearer <token of an API key>'.")
    return form[1]


def _diagnose(text: str) -> str:
    """Return a sentence about what was sent instead of a token, or "".

    The sentence ends with a space. It quotes nothing: what was sent may be a secret.
    """
    scheme, _, sent = text.partition(" ")
    word = text.rpartition(" ")[2]
    if not text:
        return ""
    if ids.is_id(word, word.partition("_")[0]):
        return "This is an id: the token of a key is shown once, when the key is created. "
    if scheme.lower() == "bearer":
        return (
            "This is not a token of this service. A token is 27 letters and digits, '_' and a secret. " if sent else ""
        )
    if _BEARER.fullmatch(f"Bearer {text}"):
        return "The word Bearer is missing before the token. "
    return f"This is {'a Basic login' if scheme.lower() == 'basic' else 'not the scheme Bearer'}. "


def _holder(token: str) -> Holder:
    holder = api_keys.find(token)
    if holder is None:
        raise Unauthenticated("The API key is unknown or was deleted.")
    if not holder.owner.active:
        kind = "bot" if kinds.BOT_USERS.has(holder.owner.id) else "user"
        raise Unauthenticated(f"The {kind} that owns the API key is inactive or was deleted.")
    return holder


def _version(lowered: Mapping[str, str]) -> str:
    names = version_headers()
    sent = {lowered[name.lower()].strip() for name in names if name.lower() in lowered}
    if len(sent) > 1:
        raise UnsupportedVersion(f"The headers {_listed(names)} name different versions: send one of them.")
    if not sent & {*VERSIONS}:
        raise UnsupportedVersion(unsupported_version(names))
    return sent.pop()


def unsupported_version(headers: Sequence[str]) -> str:
    """Return the message for a request without a supported version in these headers."""
    named = f"the header {_listed(headers)}" if len(headers) == 1 else f"one of the headers {_listed(headers)}"
    return f"Send {named} with a supported version: {' or '.join(VERSIONS)}."


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
