"""SSH certificate authorities: private keys are opened only to sign; the unique key of each leads to its account."""

import base64
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from chalicelib import clock, crypto
from chalicelib.model import kinds
from chalicelib.model.audit import Trail
from chalicelib.storage import aws, items, revocation_lists, table, vault
from chalicelib.storage.dynamodb import Write
from chalicelib.storage.items import Item
from chalicelib.storage.relations import Meaning
from chalicelib.storage.revocation_lists import Head, Overtaken
from chalicelib.storage.unique_keys import UniqueKey

_KIND = "ssh_authority"


def unique_key(account: str, id: str, body: Mapping[str, Any]) -> UniqueKey:
    """Return the unique key of an authority's public key, whose attributes are its account and id."""
    return UniqueKey(_KIND, crypto.public_keys.fingerprint(body["public_key"]), {"account": account, "id": id})


def parameters(public_key: str) -> dict[str, Any]:
    """Return the `key_size` of an rsa key, in bits, or the `elliptic_curve` of an ecdsa key, from its public key.

    It is read without cryptography, for which a request that only reads does not wait.
    """
    name, encoded, *_ = public_key.split()
    if name.startswith("ecdsa-sha2-"):
        return {"elliptic_curve": name.removeprefix("ecdsa-sha2-")}
    if name == "ssh-rsa":
        modulus = _strings(base64.b64decode(encoded))[-1]
        return {"key_size": int.from_bytes(modulus).bit_length()}
    return {}


def _strings(blob: bytes) -> list[bytes]:
    """Return the strings of a key in the wire form of RFC 4253: each stands behind its length in four bytes."""
    found = []
    while blob:
        end = 4 + int.from_bytes(blob[:4])
        found.append(blob[4:end])
        blob = blob[end:]
    return found


def find_certificate(fingerprint: str, key_id: str) -> Item | None:
    """Return the user certificate of this key id that the authority of this fingerprint (SHA256:…) signed, or None.

    It may be of any account. None also where it was deleted or is past its end. Two reads. Raises aws.Unavailable.
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


def founding(authority: Item) -> list[tuple[Write, Meaning]]:
    """Return what is written with a new authority: its empty list of revocations."""
    head = Head(authority.id, authority.account, authority.body["public_key"])
    return [(revocation_lists.founding(head), Overtaken())]


def remove(scope: str, id: str, *, check: Callable[[Item], None], by: Trail) -> bool:
    """Remove an authority; its list of revocations stays until its last entry ends. False when there is none.

    Raises what `check` raises of the authority; aws.Unavailable.
    """
    also = by.telling("delete")
    for _ in table.tries():
        head = revocation_lists.read(id)
        if head is None or head.account != items.account(scope):
            return table.delete(scope, id, check=check, also=also)
        end = revocation_lists.ending(head, revocation_lists.chunks(id))
        with suppress(Overtaken):
            return table.delete(scope, id, check=check, also=also, beside=[(end, Overtaken())])
    raise aws.Unavailable("TransactionConflict")


def signing_key(authority: Item) -> "crypto.keys.PrivateKey":
    """Return the authority's private key, for one signature: do not keep it. Raises aws.Unavailable."""
    context = vault.context(authority.account, authority.id)
    return vault.unseal(authority.sealed["private_key"], context, crypto.keys.from_der)
