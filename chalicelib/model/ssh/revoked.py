"""Reads the revocations of SSH authorities, for sign-ins and for servers."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from chalicelib import clock, crypto
from chalicelib.model.accounts import accounts
from chalicelib.model.base import switches
from chalicelib.model.ssh import authorities, revocations
from chalicelib.model.ssh.authorities import IssuedUserCertificate
from chalicelib.storage.records import decoding, revocation_lists
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.revocation_lists import Head


def find_certificate(fingerprint: str, key_id: str) -> Item | None:
    """Return a valid user certificate of any account, or None. `fingerprint` is the fingerprint of its authority.

    A certificate is valid unless it has ended or is suspended, the certificate or its public key was revoked, or its
    account is inactive. Raises aws.Unavailable.
    """
    return _read_valid(fingerprint, key_id, lambda: authorities.find_certificate(fingerprint, key_id))


def read_certificate(account: str, id: str) -> Item | None:
    """Return a valid user certificate of an account, or None. `find_certificate` defines when it is valid."""
    return _read_valid(account, id, lambda: authorities.read_certificate(account, id))


def _read_valid(scope: str, id: str, read: Callable[[], Item | None]) -> Item | None:
    """Return the certificate that `read` returns, or None if it is not valid.

    A certificate is not valid if its record, or another record that is read to check it, is malformed.
    """
    try:
        certificate = read()
        return certificate if certificate and _is_valid(certificate) else None
    except MalformedRecord as malformed:
        decoding.report(scope, id, malformed)
        return None


def build_krl(heads: Sequence[Head]) -> bytes:
    """Return the revoked keys and certificates of authorities as an OpenSSH revocation list.

    Entries that have ended are left out. Raises aws.Unavailable.
    """
    now = clock.seconds()
    live = {
        head: [crypto.packed_revocations.expire(packed, now) for packed in revocation_lists.read_packed(head.authority)]
        for head in heads
        if head.count  # do not read the entries of empty revocation lists
    }
    return crypto.krl.make(
        version=sum(head.version for head in heads),
        generated=datetime.fromtimestamp(max(head.changed_at for head in heads), UTC),
        certificates=[crypto.krl.Revoked(head.public_key, _serials(chunks)) for head, chunks in live.items()],
        fingerprints=[
            key
            for chunks in live.values()
            for packed in chunks
            for key in crypto.packed_revocations.fingerprints(packed)
        ],
    )


def _is_valid(item: Item) -> bool:
    if not switches.is_on(item):
        return False
    certificate = IssuedUserCertificate.of(item.body)
    _ = certificate.bind  # raise MalformedRecord if the ACL rules in the certificate are malformed
    entries = (revocations.describe_certificate(item).entry, revocations.revoke_key(certificate.public_key).entry)
    chunks = [(revocation_lists.chunk_of(certificate.ssh_certificate_authority_id, entry), entry) for entry in entries]
    is_revoked = any(crypto.packed_revocations.holds(chunk.packed, entry) for chunk, entry in chunks)
    return not is_revoked and accounts.is_account_active(item.account)


def _serials(packed: Iterable[bytes]) -> list[int]:
    return [serial for each in packed for serial in crypto.packed_revocations.serials(each)]
