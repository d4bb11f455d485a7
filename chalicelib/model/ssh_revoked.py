"""Reading the revocations of SSH authorities: whether a certificate lets in, and the list that servers fetch."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from chalicelib import crypto
from chalicelib.model import accounts, kinds, ssh_authorities, ssh_revocations
from chalicelib.model.ssh_revocations import Authority
from chalicelib.storage import dynamodb, items, revocation_lists, table
from chalicelib.storage.items import Item
from chalicelib.storage.revocation_lists import Head


def signer(account: str, id: str, digest: bytes) -> tuple[Item | None, bool]:
    """Return an authority, None when the account has none of that id, and whether it has revoked a key; in one call.

    `digest` is the key's, of 32 bytes. Raises aws.Unavailable.
    """
    entry = crypto.packed_revocations.RevokedKey(digest)
    place = (items.scope(account, kinds.SSH_CERTIFICATE_AUTHORITIES.path), id)
    record, chunk = dynamodb.get_each(place, revocation_lists.key_of(id, entry))
    packed = revocation_lists.of_record(chunk).packed if chunk else b""
    return table.of_record(record), crypto.packed_revocations.holds(packed, entry)


def find_certificate(fingerprint: str, key_id: str) -> Item | None:
    """Return the user certificate of a key id that the authority with a fingerprint has signed, of any account.

    None also where it or its key was revoked, where it has ended, and where the account is switched off. Raises
    aws.Unavailable.
    """
    found = ssh_authorities.find_certificate(fingerprint, key_id)
    return found if found and _lets_in(found) else None


def read_certificate(account: str, id: str) -> Item | None:
    """Return a user certificate of an account if it still lets in, as `find_certificate` does."""
    found = ssh_authorities.read_certificate(account, id)
    return found if found and _lets_in(found) else None


def krl(heads: Sequence[Head]) -> bytes:
    """Return the list of revoked keys and certificates, as OpenSSH reads it, of one authority or several.

    What has ended is left out. Raises aws.Unavailable.
    """
    now = items.now()
    live = {
        head: [crypto.packed_revocations.expire(chunk.packed, now) for chunk in revocation_lists.chunks(head.authority)]
        for head in heads
        if head.count  # else there is nothing to read
    }
    return crypto.krl.make(
        version=sum(head.version for head in heads),
        generated=datetime.fromtimestamp(max(head.changed_at for head in heads), UTC),
        certificates=[crypto.krl.Revoked(head.public_key, _serials(found)) for head, found in live.items()],
        fingerprints=[
            key for found in live.values() for packed in found for key in crypto.packed_revocations.fingerprints(packed)
        ],
    )


def lists() -> Iterator[tuple[Authority, list[Item]]]:
    """Yield the authorities that have revoked anything, of all accounts, each with the records of what it has revoked.

    Reads the whole table. Raises aws.Unavailable.
    """
    for head in revocation_lists.every():
        authority = Authority(head.account, head.authority, head.public_key)
        if records := table.newest(authority.scope):
            yield authority, records


def not_listed(authority: Authority, records: Iterable[Item]) -> list[Item]:
    """Return the records of revocations that an authority's list does not hold. Raises aws.Unavailable."""
    stored = revocation_lists.chunks(authority.id) if revocation_lists.read(authority.id) else []
    live = [crypto.packed_revocations.expire(chunk.packed, items.now()) for chunk in stored]
    held = {entry[0] for packed in live for entry in crypto.packed_revocations.unpack(packed)}
    return [record for record in records if ssh_revocations.subject_of(record.body).entry[0] not in held]


def _lets_in(certificate: Item) -> bool:
    authority = certificate.body["ssh_certificate_authority_id"]
    serial = ssh_revocations.of_certificate(certificate).entry
    key = ssh_revocations.of_key(certificate.body["public_key"]).entry
    chunks = [(revocation_lists.chunk_of(authority, entry), entry) for entry in (serial, key)]
    is_revoked = any(crypto.packed_revocations.holds(chunk.packed, entry) for chunk, entry in chunks)
    return not is_revoked and accounts.is_switched_on(certificate.account)


def _serials(packed: Iterable[bytes]) -> list[int]:
    return [serial for each in packed for serial in crypto.packed_revocations.serials(each)]
