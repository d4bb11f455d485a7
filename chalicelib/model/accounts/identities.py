"""Identities: the users to which an issuer's subjects are bound.

At the first sign-in, the token's subject is bound to the user with the name in the claim `owner_claim`.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from chalicelib.model.accounts import accounts, copies, federated_credentials
from chalicelib.model.accounts.accounts import Owner, User
from chalicelib.model.accounts.exchanges import Refused, VerifiedToken
from chalicelib.model.base import kinds, records
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import items, unique_keys, writes
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import UniqueKey

KIND = federated_credentials.IDENTITY
MAX_NAME = 255  # the most bytes of a user's name

_EMAIL = "email"


@dataclass(frozen=True)
class Resolved:
    """The owner for whom an exchange acts: an existing user or bot, or a new user.

    `user` is the item of a new user, which the exchange must create, otherwise None. `binding` are further writes: they
    count a new user, or bind an existing user to the token's subject.
    """

    owner: Owner
    binding: tuple[Write, ...] = ()
    user: Item | None = None


def resolve(token: VerifiedToken, check_name: Callable[[str], object]) -> Resolved:
    """Return the owner that a federated credential names, or that a claim of its token names.

    `check_name` raises ValueError for a name that a new user cannot have. Raises Refused, aws.Unavailable.
    """
    credential = token.credential
    resolved = _resolve_claim(token, check_name) if credential.owner_claim else Resolved(credential.owner)
    if not resolved.owner.active:
        raise Refused("owner_inactive")
    return resolved


def _resolve_claim(token: VerifiedToken, check_name: Callable[[str], object]) -> Resolved:
    """Return the user to whom a token's subject is bound.

    If the subject is not bound yet, return the user with the name in the claim, or a new user with this name. The
    exchange then binds the subject to this user. Raises Refused, aws.Unavailable.
    """
    account, name = token.credential.account, token.claims.owner_name or ""
    if len(name.encode()) > MAX_NAME:
        raise Refused("owner")
    identity, named = _identity(token), accounts.name_key(account, name)
    identity_record, name_record = dynamodb.get_each((identity.scope, unique_keys.ID), (named.scope, unique_keys.ID))
    if identity_record:
        body = identity_record.get("body", {})
        owner = Owner(
            identity_record["holder"], body.get("admin") is True, body.get("active") is True, body.get("name", "")
        )
        return Resolved(owner)
    if name_record is None:
        return _provision(token, identity, name, check_name)
    if not kinds.USERS.has(name_record.get("holder", "")):  # a bot has this name, and subjects are bound only to users
        raise Refused("owner")
    return _bind(token, identity, name_record["holder"])


def _bind(token: VerifiedToken, identity: UniqueKey, id: str) -> Resolved:
    """Return an existing user, with the writes that bind the token's subject to this user. Raises Refused."""
    account, is_email = token.credential.account, token.credential.owner_claim == _EMAIL
    pair = copies.read_owner_and_account(account, id)
    item = pair[0]
    user = next((stored for _, stored in records.decode_each(User, [item] if item.body else [])), None)
    if user is None:
        raise Refused("owner")
    if any(key.kind == KIND for key in item.unique_keys) or (user.admin and not is_email):
        raise Refused("identity")
    owner = Owner(id, user.admin, copies.are_active(pair), user.name)
    keys = (*item.unique_keys, _set_owner(identity, owner))
    after = replace(item, unique_keys=keys, revision=items.choose_revision(item))
    return Resolved(owner, tuple(writes.rewrite(item, after)))


def _provision(token: VerifiedToken, identity: UniqueKey, name: str, check_name: Callable[[str], object]) -> Resolved:
    """Return a new user with a name. Raises Refused if the federated credential may not create users."""
    account = token.credential.account
    if not token.credential.provision:
        raise Refused("owner")
    try:
        check_name(name)
    except ValueError:
        raise Refused("owner") from None
    user = accounts.new_user(account, name, admin=False)
    owner = Owner(user.id, admin=False, active=accounts.is_account_active(account), name=name)
    user = replace(user, unique_keys=(*user.unique_keys, _set_owner(identity, owner)))
    return Resolved(owner, (accounts.count_new_user(account),), user)


def _identity(token: VerifiedToken) -> UniqueKey:
    digest = hashlib.sha256(f"{token.claims.issuer} {token.claims.subject}".encode()).hexdigest()
    return UniqueKey(KIND, f"{token.credential.account}/{digest}")


def _set_owner(identity: UniqueKey, owner: Owner) -> UniqueKey:
    attributes: dict[str, Any] = {"name": owner.name, "active": owner.active, "admin": owner.admin}
    return replace(identity, attributes=attributes)
