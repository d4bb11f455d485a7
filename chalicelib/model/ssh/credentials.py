"""SSH credentials, as a gateway knows them: the unique key of a public key repeats the rules, so one read will do."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from chalicelib import crypto
from chalicelib.model import accounts, changes, details, kinds
from chalicelib.model.audit import Trail
from chalicelib.model.changes import Change
from chalicelib.model.records import Owned
from chalicelib.storage import items, table
from chalicelib.storage.items import Item
from chalicelib.storage.unique_keys import UniqueKey

_KIND, _SUSPENDED = "public_key", "suspended"


@dataclass(frozen=True, kw_only=True)
class SshCredential(Owned):
    """The stored form of a credential; its public key is as it was sent."""

    public_key: str
    acl: list[str] = field(default_factory=list)

    TOLD = ("owner_id", "acl")

    def told(self) -> dict[str, Any]:
        found = details.ssh_fingerprint(self.public_key) or crypto.public_keys.fingerprint(self.public_key)
        return {**super().told(), "fingerprint": found}

    def unique_keys(self, account: str, id: str) -> tuple[UniqueKey, ...]:
        """Return the one of its public key, which repeats the rules."""
        repeated = {"account": account, "id": id, "owner_id": self.owner_id, "acl": self.acl}
        return (UniqueKey(_KIND, crypto.public_keys.fingerprint(self.public_key), repeated),)


@dataclass(frozen=True)
class Credential:
    """A credential as a gateway needs it; `acl` is for acl.permits."""

    account: str
    id: str
    owner_id: str
    acl: list[str]


def find_by_fingerprint(fingerprint: str) -> Credential | None:
    """Return the credential, of any account, with the key of a fingerprint (public_keys.fingerprint_of), or None.

    None also where its owner or account may not act. One read. Raises aws.Unavailable.
    """
    found = table.look_up(_KIND, fingerprint)
    if found is None or found.get(_SUSPENDED) or not _is_active(found):
        return None
    return Credential(found["account"], found["id"], found["owner_id"], found["acl"])


def read(account: str, id: str) -> Credential | None:
    """Return a credential as it is now, or None where it was deleted or its bot may not act. Raises aws.Unavailable."""
    item = table.read(items.scope(account, kinds.SSH_CREDENTIALS.path), id)
    found = SshCredential.of(item.body) if item and not item.unseen.get(_SUSPENDED) else None
    if found is None or not accounts.is_active(account, found.owner_id):
        return None
    return Credential(account, id, found.owner_id, found.acl)


def suspend(account: str, id: str, *, by: Trail) -> bool:
    """Let a credential sign in no more, also when its owner is switched on again; False where there is none.

    Its tunnels end as the log of changes tells. Raises aws.Unavailable.
    """

    def suspended(item: Item) -> Item:
        return replace(item, unseen={**item.unseen, _SUSPENDED: True})

    item = changes.rewrite(Change(by), items.scope(account, kinds.SSH_CREDENTIALS.path), id, suspended)
    if item:
        table.set_all([(key, {_SUSPENDED: True}) for key in item.unique_keys])
    return item is not None


def _is_active(found: Mapping[str, Any]) -> bool:
    if "active" in found:
        return bool(found["active"])
    return accounts.is_active(found["account"], found["owner_id"])  # a record of the first edition
