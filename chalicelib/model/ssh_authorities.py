"""SSH certificate authorities: private keys are opened only to sign; the unique key of each leads to its account."""

from collections.abc import Mapping
from typing import Any

from chalicelib import clock, crypto
from chalicelib.model import kinds
from chalicelib.storage import items, table, vault
from chalicelib.storage.items import Item
from chalicelib.storage.unique_keys import UniqueKey

_KIND = "ssh_authority"


def unique_key(account: str, id: str, body: Mapping[str, Any]) -> UniqueKey:
    """Return the unique key of an authority's public key."""
    return UniqueKey(_KIND, crypto.public_keys.fingerprint(body["public_key"]), {"account": account, "id": id})


def find_certificate(fingerprint: str, key_id: str) -> Item | None:
    """Return the user certificate of a key id that the authority with a fingerprint has signed, of any account.

    None also where it was deleted, which revokes it, or is past its end. Two reads. Raises aws.Unavailable.
    """
    authority = table.look_up(_KIND, fingerprint)
    if authority is None:
        return None
    found = read_certificate(authority["account"], key_id)
    return found if found and found.body["ssh_certificate_authority_id"] == authority["id"] else None


def read_certificate(account: str, id: str) -> Item | None:
    """Return a user certificate that is not past its end, or None. Raises aws.Unavailable."""
    if not kinds.SSH_USER_CERTIFICATES.has(id):
        return None
    found = table.read(items.scope(account, kinds.SSH_USER_CERTIFICATES.path), id)
    return found if found and clock.parse(found.body["valid_until"]) > clock.now() else None


def read(account: str, id: str) -> Item | None:
    """Return the authority, or None when the account has none of that id. Raises aws.Unavailable."""
    return table.read(items.scope(account, kinds.SSH_CERTIFICATE_AUTHORITIES.path), id)


def signing_key(authority: Item) -> "crypto.keys.PrivateKey":
    """Return the authority's private key, for one signature: do not keep it. Raises aws.Unavailable."""
    context = vault.context(authority.account, authority.id)
    return vault.unseal(authority.sealed["private_key"], context, crypto.keys.from_der)
