"""API keys: whose token it is. The token's record is found by the id in the token; only its digest is stored."""

import hashlib
import hmac
import secrets
from dataclasses import dataclass

from chalicelib import ids
from chalicelib.model import kinds
from chalicelib.model.accounts import Owner
from chalicelib.storage import table
from chalicelib.storage.unique_keys import UniqueKey

_KIND = "token"
_ID = 27  # characters of a token are those of its key's id


@dataclass(frozen=True)
class Holder:
    """Who holds a token: the user or bot that owns the API key, and the key's id."""

    account: str
    owner: Owner
    key: str


def new_token(id: str) -> tuple[str, str]:
    """Make a bearer token for an API key, 192 random bits beside the key's id; return it and its digest."""
    token = f"{ids.unprefixed(id)}_{secrets.token_urlsafe(24)}"
    return token, _digest(token)


def unique_key(id: str, digest: str, account: str, owner: Owner) -> UniqueKey:
    """Return what authentication reads in one look: whose key this is."""
    attributes = {"digest": digest, "account": account, "owner_id": owner.id, "admin": owner.admin}
    return UniqueKey(_KIND, ids.unprefixed(id), attributes)


def find(token: str) -> Holder | None:
    """Return who holds a token, or None when there is no such key. One read. Raises aws.Unavailable."""
    found = table.look_up(_KIND, token[:_ID])
    if found is None or not hmac.compare_digest(found["digest"], _digest(token)):
        return None
    return Holder(found["account"], Owner(found["owner_id"], found["admin"]), f"{kinds.API_KEYS.prefix}_{token[:_ID]}")


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
