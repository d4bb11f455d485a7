"""Who is calling: authentication (SPEC 5, 9), the account every storage scope lies in, and the owner rule.

Imports neither Chalice nor pydantic, so that the gateway's authorizer can use it.
"""

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chalicelib import ids
from chalicelib.api import accounts
from chalicelib.api.accounts import Owner
from chalicelib.api.errors import Forbidden, Unauthenticated, UnknownReference, UnsupportedVersion
from chalicelib.storage import claims
from chalicelib.storage.claims import Claim

VERSIONS = ("2", "0")  # the current one first
VERSION_HEADER = "Service-Version"  # unless VERSION_HEADERS says otherwise
_ID = 27  # characters of a token are those of its key's id
_BEARER = re.compile(r"Bearer +([0-9A-Za-z]{27}_[0-9A-Za-z_-]{1,100})", flags=re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class Caller:
    """A user or bot of an account, the API version it speaks, and the id of the API key it came with."""

    account: str
    id: str
    admin: bool
    version: str = VERSIONS[0]
    key: str = ""

    def scope(self, path: str) -> str:
        """Where the caller's account keeps what the path offers: the only way from a request to the storage."""
        return accounts.scope(self.account, path)

    def owner(self, asked: str) -> Owner:
        """Who is to own what the caller creates (SPEC 5.4): "" is the caller; only admins may name another."""
        if asked in ("", self.id):
            return Owner(self.id, self.admin)
        if not self.admin:
            raise Forbidden("Only an admin may name another owner.", {"owner_id": "must be absent or your own id"})
        owner = accounts.owner(self.account, asked)
        if owner is None:
            raise UnknownReference(
                "The owner is not known.", {"owner_id": "must be the id of a user or bot of this account"}
            )
        return owner

    def as_context(self) -> dict[str, str]:
        """The caller as the gateway hands it from the authorizer to the app: strings only."""
        return {
            "account": self.account,
            "caller": self.id,
            "admin": "true" if self.admin else "false",
            "version": self.version,
            "key": self.key,
        }

    @staticmethod
    def from_context(context: Mapping[str, str]) -> "Caller":
        """The caller that `as_context` described."""
        admin, key = context["admin"] == "true", context.get("key", "")
        return Caller(context["account"], context["caller"], admin, context["version"], key)


NOBODY = Caller(account="", id="", admin=False)  # who calls what is open to everyone: of no account


def new_token(key_id: str) -> tuple[str, str]:
    """A bearer token for an API key, 192 random bits beside the key's id; and its digest, all that is stored."""
    token = f"{ids.unprefixed(key_id)}_{secrets.token_urlsafe(24)}"
    return token, _digest(token)


def token_claim(key_id: str, digest: str, account: str, owner: Owner) -> Claim:
    """What authentication reads in one look: whose key this is."""
    facts = {"digest": digest, "account": account, "owner_id": owner.id, "admin": owner.admin}
    return Claim("token", ids.unprefixed(key_id), facts)


def authenticate(headers: Mapping[str, str]) -> Caller:
    """The caller behind a request's headers, whatever the case of their names.

    Raises Unauthenticated, then UnsupportedVersion; aws.Unavailable.
    """
    lowered = {name.lower(): value for name, value in headers.items()}
    token = _token(lowered.get("authorization", ""))
    facts = _facts(token)
    if not accounts.is_active(facts["account"], facts["owner_id"]):
        raise Unauthenticated("The bot that owns the API key is inactive or was deleted.")
    key = f"ak_{token[:_ID]}"
    return Caller(facts["account"], facts["owner_id"], facts["admin"], _version(lowered), key)


def _token(authorization: str) -> str:
    form = _BEARER.fullmatch(authorization.strip())
    if not form:
        raise Unauthenticated("Send the header 'Authorization: Bearer <token of an API key>'.")
    return form[1]


def _facts(token: str) -> dict[str, Any]:
    facts = claims.read("token", token[:_ID])
    if facts is None or not hmac.compare_digest(facts["digest"], _digest(token)):
        raise Unauthenticated("The API key is unknown or was deleted.")
    return facts


def version_headers() -> list[str]:
    """The names under which clients may send the version, the one to tell them first."""
    return [name.strip() for name in (os.environ.get("VERSION_HEADERS") or VERSION_HEADER).split(",")]


def _version(lowered: Mapping[str, str]) -> str:
    names = version_headers()
    version = next((lowered[name.lower()] for name in names if name.lower() in lowered), "").strip()
    if version not in VERSIONS:
        raise UnsupportedVersion(f"Send the header '{names[0]}' with a supported version: {' or '.join(VERSIONS)}.")
    return version


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
