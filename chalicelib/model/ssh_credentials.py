"""SSH credentials, as a gateway knows them: the unique key of a public key repeats the rules, so one read will do."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chalicelib import crypto
from chalicelib.model import accounts, kinds
from chalicelib.storage import items, table
from chalicelib.storage.unique_keys import UniqueKey

_KIND = "public_key"


@dataclass(frozen=True)
class Credential:
    """A credential as a gateway needs it; `acl` is for acl.permits."""

    account: str
    id: str
    owner_id: str
    acl: list[str]


def unique_key(account: str, id: str, body: Mapping[str, Any], *, active: bool) -> UniqueKey:
    """Return the unique key of a credential's public key; `active` is whether its owner may act."""
    repeated = {"account": account, "id": id, "owner_id": body["owner_id"], "acl": body["acl"], "active": active}
    return UniqueKey(_KIND, crypto.public_keys.fingerprint(body["public_key"]), repeated)


def find_by_fingerprint(fingerprint: str) -> Credential | None:
    """Return the credential, of any account, with the key of a fingerprint (public_keys.fingerprint_of), or None.

    None also where its owner or account may not act. One read. Raises aws.Unavailable.
    """
    found = table.look_up(_KIND, fingerprint)
    if found is None or not _is_active(found):
        return None
    return Credential(found["account"], found["id"], found["owner_id"], found["acl"])


def read(account: str, id: str) -> Credential | None:
    """Return a credential as it is now, or None where it was deleted or its bot may not act. Raises aws.Unavailable."""
    found = table.read(items.scope(account, kinds.SSH_CREDENTIALS.path), id)
    if found is None or not accounts.is_active(account, found.body["owner_id"]):
        return None
    return Credential(account, id, found.body["owner_id"], found.body["acl"])


def _is_active(found: Mapping[str, Any]) -> bool:
    if "active" in found:
        return bool(found["active"])
    return accounts.is_active(found["account"], found["owner_id"])  # a record of the first edition
