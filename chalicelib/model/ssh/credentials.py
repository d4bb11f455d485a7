"""SSH credentials: their stored form, and the form that a gateway reads.

The item that keeps a public key unique contains a copy of the ACL, so that a gateway reads only this item.
"""

from dataclasses import dataclass, field
from typing import Any

from chalicelib import crypto
from chalicelib.model.accounts import accounts
from chalicelib.model.audit import details
from chalicelib.model.base import kinds, records, switches
from chalicelib.model.base.records import Owned, Stored
from chalicelib.storage.records import decoding, items, table, unique_keys
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.unique_keys import UniqueKey

_KIND = "public_key"


@dataclass(frozen=True, kw_only=True)
class SshCredential(Owned):
    """The stored form of a credential. Its public key is stored as it was sent."""

    public_key: str
    acl: list[str] = field(default_factory=list)

    AUDITED = ("owner_id", "acl")

    def audited_fields(self) -> dict[str, Any]:
        fingerprint = details.ssh_fingerprint(self.public_key) or crypto.public_keys.fingerprint(self.public_key)
        return {**super().audited_fields(), "fingerprint": fingerprint}

    def unique_keys(self, account: str, id: str) -> tuple[UniqueKey, ...]:
        """Return the unique key with the public key's fingerprint and a copy of the ACL.

        The module `switching` later adds whether the owner is active.
        """
        repeated = {"account": account, "id": id, "owner_id": self.owner_id, "acl": self.acl}
        return (UniqueKey(_KIND, crypto.public_keys.fingerprint(self.public_key), repeated),)


@dataclass(frozen=True)
class Credential:
    """A credential as a gateway uses it. `acl` are the ACL rules that it must obey."""

    account: str
    id: str
    owner_id: str
    acl: list[str]


@dataclass(frozen=True, kw_only=True)
class _KeyFields(Stored):
    """The attributes of the item that keeps a public key unique.

    `active` is a copy of the owner's state: true if the user or bot is active, None if it was not copied yet.
    """

    account: str
    id: str
    owner_id: str
    acl: list[str]
    active: bool | None = None


def find_by_fingerprint(fingerprint: str) -> Credential | None:
    """Return the active credential with a fingerprint, of any account, or None.

    `fingerprint` has the form that public_keys.fingerprint_of returns. Returns None also if the credential is
    suspended, or if its owner or account is inactive. One read. Raises aws.Unavailable.
    """
    attributes = table.look_up(_KIND, fingerprint)
    if attributes is None:
        return None
    try:
        stored = _KeyFields.of(attributes)
    except MalformedRecord as malformed:
        decoding.report(f"{_KIND}#{fingerprint}", unique_keys.ID, malformed)
        return None
    if not switches.is_key_on(attributes) or not _is_active(stored):
        return None
    return Credential(stored.account, stored.id, stored.owner_id, stored.acl)


def read(account: str, id: str) -> Credential | None:
    """Return an active credential of an account, or None. Raises aws.Unavailable."""
    item = table.find(items.scope(account, kinds.SSH_CREDENTIALS.path), id)
    active = [item] if item and switches.is_on(item) else []
    credential = next((stored for _, stored in records.decode_each(SshCredential, active)), None)
    if credential is None or not accounts.is_owner_active(account, credential.owner_id):
        return None
    return Credential(account, id, credential.owner_id, credential.acl)


def _is_active(stored: _KeyFields) -> bool:
    return accounts.is_owner_active(stored.account, stored.owner_id) if stored.active is None else stored.active
