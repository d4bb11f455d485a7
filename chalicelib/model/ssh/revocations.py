"""Revocations by SSH authorities.

Each revocation has a record, which the API shows, and an entry in the list that servers fetch. Both change in one
transaction. After the deletion of an authority, its list stays until the last entry has ended.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from chalicelib import clock, crypto, ids
from chalicelib.model import changes
from chalicelib.model.base import kinds, records
from chalicelib.model.base.records import Created
from chalicelib.model.changes import Change
from chalicelib.model.ssh import authorities
from chalicelib.model.ssh.authorities import IssuedCertificate
from chalicelib.storage.client import aws
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import decoding, items, revocation_lists, table, writes
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.revocation_lists import Chunk, Head, ListFull

T = TypeVar("T")
FIELDS = {
    kinds.SSH_USER_CERTIFICATES: "ssh_user_certificate_id",
    kinds.SSH_HOST_CERTIFICATES: "ssh_host_certificate_id",
}


class AlreadyRevoked(Exception):
    """The revocation list already contains the serial or key."""


@dataclass(frozen=True)
class Issuer:
    """The SSH authority of a revocation list. `public_key` is one authorized_keys line.

    The authority may have been deleted.
    """

    account: str
    id: str
    public_key: str

    @property
    def scope(self) -> str:
        """Return the partition key of the authority's revocations."""
        return items.scope(self.account, kinds.SSH_REVOCATIONS.path.format(id=self.id))


@dataclass(frozen=True, kw_only=True)
class Revocation(Created):
    """The stored form of a revocation of a certificate, serial or key. Empty fields are not stored."""

    reason: str = ""
    ssh_user_certificate_id: str = ""
    ssh_host_certificate_id: str = ""
    serial: str = ""
    public_key: str = ""
    key_fingerprint: str = ""
    valid_until: str = ""

    AUDITED = ("ssh_user_certificate_id", "ssh_host_certificate_id", "serial", "key_fingerprint", "valid_until")

    def to_record(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value}

    @property
    def entry(self) -> "crypto.packed_revocations.Entry":
        """Return the entry of this revocation in a revocation list. Raises MalformedRecord without a key or serial."""
        try:
            if self.public_key:
                fingerprint = crypto.public_keys.fingerprint(self.public_key)
                return crypto.packed_revocations.RevokedKey(crypto.public_keys.digest(fingerprint))
            end = int(clock.parse(self.valid_until).timestamp()) if self.valid_until else None
            return crypto.packed_revocations.RevokedSerial(int(self.serial), end)
        except ValueError:
            raise MalformedRecord(
                "Revocation",
                "serial",
                "must be an integer, and valid_until an RFC 3339 time or empty, unless public_key is a valid SSH key",
            ) from None


def find_issuer(account: str, id: str) -> Issuer | None:
    """Return the SSH authority of one of an account's revocation lists, or None. Raises aws.Unavailable."""
    head = revocation_lists.read(id)
    return Issuer(account, id, head.public_key) if head and head.account == account else None


def revoke_key(public_key: str) -> Revocation:
    """Return the revocation of a public key. All certificates of this key are then revoked too. Raises ValueError."""
    return Revocation(public_key=public_key, key_fingerprint=crypto.public_keys.fingerprint(public_key))


def describe_certificate(item: Item) -> Revocation:
    """Return the revocation of a user or host certificate. The revocation ends when the certificate ends. Raises
    MalformedRecord.
    """
    certificate = records.decode(IssuedCertificate, item)
    return _describe_serial(item.id, certificate, certificate.decode_signed().serial)


def _describe_serial(id: str, certificate: IssuedCertificate, serial: int) -> Revocation:
    field = FIELDS[kinds.identify(id)]
    return Revocation(serial=str(serial), valid_until=certificate.valid_until, **{field: id})


def revoke(change: Change, issuer: Issuer, revocation: Revocation) -> Item:
    """Store a revocation and return its record. Raises AlreadyRevoked, ListFull, and the errors of `Change.commit`."""
    record = build_record(issuer, revocation)

    def add(is_new: bool, listed: list[Write]) -> Item:
        if is_new:
            change.put(record).add(*listed).commit()
        # If the record exists already, an earlier attempt has stored it, and only DynamoDB's response was lost.
        elif table.read(record.scope, record.id) is None:
            raise AlreadyRevoked
        return record

    return _add(issuer, revocation.entry, add)


def delete_certificate(change: Change, scope: str, id: str) -> bool:
    """Remove a certificate, and revoke it unless it has ended, in one transaction.

    Return False if it does not exist. Raises ListFull, and the errors of `Change.commit`.
    """
    item = table.find(scope, id)
    if item is None:
        return False
    try:
        certificate = _decode_revocable(item)
        signed = certificate.decode_signed()
    except MalformedRecord as malformed:  # the serial is unknown, so delete the certificate without a revocation
        decoding.report(item.scope, item.id, malformed)
        return changes.delete(change, scope, id)
    revocation = _describe_serial(item.id, certificate, signed.serial)
    issuer = Issuer(item.account, certificate.ssh_certificate_authority_id, signed.authority)
    record, fingerprint = build_record(issuer, revocation), crypto.public_keys.fingerprint(certificate.public_key)
    details = authorities.audited_certificate(certificate, signed.serial, fingerprint)

    def add(is_new: bool, listed: list[Write]) -> bool:
        current_item = table.find(scope, id)
        if current_item:
            removed = change.remove(current_item, details=details).add(*listed)
            (removed.put(record) if is_new else removed).commit()
        return current_item is not None

    if certificate.end <= clock.seconds():
        return writes.retry(lambda: add(False, []))
    return _add(issuer, revocation.entry, add)


def remove(change: Change, scope: str, id: str) -> bool:
    """Remove a revocation and its entry in one transaction. Return False if it does not exist.

    Raises the errors of `Change.commit`.
    """
    record, authority = table.find(scope, id), items.find_parent(scope)
    if record is None or authority is None:
        return False
    try:
        entry = records.decode(Revocation, record).entry
    except MalformedRecord as malformed:  # the revoked key or serial is unknown, so its entry stays in the list
        decoding.report(scope, id, malformed)
        return changes.delete(change, scope, id)

    def remove(head: Head, chunk: Chunk) -> bool:
        item = table.find(scope, id)
        if item:
            packed = crypto.packed_revocations.remove(chunk.packed, entry)
            change.remove(item).add(*revocation_lists.rewrite(head, chunk, packed)).commit()
        return item is not None

    return _change_list(Issuer(record.account, authority[1], ""), entry, remove)


def _decode_revocable(item: Item) -> IssuedCertificate:
    """Return a certificate with only the fields that its revocation needs.

    Other fields can be malformed. Raises MalformedRecord.
    """
    needed = ("certificate", "ssh_certificate_authority_id", "valid_until", "public_key", "principals", "valid_after")
    return records.decode(
        IssuedCertificate, replace(item, body={name: item.body[name] for name in needed if name in item.body})
    )


def build_record(issuer: Issuer, revocation: Revocation) -> Item:
    """Return a new record of a revocation, which is not stored yet."""
    id = ids.new(kinds.SSH_REVOCATIONS.prefix)
    body = replace(revocation, created_at=ids.time_of(id)).to_record()
    entry = revocation.entry
    end = entry.valid_until if isinstance(entry, crypto.packed_revocations.RevokedSerial) else None
    return Item(issuer.scope, id, body, expires=end)


def _add(issuer: Issuer, entry: "crypto.packed_revocations.Entry", add: Callable[[bool, list[Write]], T]) -> T:
    """Add an entry to a revocation list.

    `add` commits the change. Its arguments are whether the entry is new to the list, and the writes that change the
    list.
    """

    def change(head: Head, chunk: Chunk) -> T:
        live = crypto.packed_revocations.expire(chunk.packed, clock.seconds())
        is_new = not crypto.packed_revocations.holds(live, entry)
        after = crypto.packed_revocations.add(live, entry) if is_new else live
        return add(is_new, revocation_lists.rewrite(head, chunk, after))

    try:
        return _change_list(issuer, entry, change)
    except ListFull:  # try again after the removal of expired entries from the list
        head = revocation_lists.read(issuer.id)
        if head is None or not revocation_lists.compact(head):
            raise
    return _change_list(issuer, entry, change)


def _change_list(issuer: Issuer, entry: "crypto.packed_revocations.Entry", change: Callable[[Head, Chunk], T]) -> T:
    """Change a revocation list. Try again if another process has changed it meanwhile. Raises aws.Unavailable."""

    def attempt() -> T:
        head = revocation_lists.read(issuer.id) or new_head(issuer)
        return change(head, revocation_lists.chunk_of(issuer.id, entry))

    return retry(attempt)


def retry(attempt: Callable[[], T]) -> T:
    """Call `attempt`. Call it again if another process has changed the revocation list. Raises aws.Unavailable."""

    def attempt_without_conflict() -> T:
        try:
            return attempt()
        except aws.Unavailable as error:
            if error.code.startswith("Transaction"):  # a conflict with another transaction: try again
                raise writes.Overtaken from None
            raise

    return writes.retry(attempt_without_conflict)


def new_head(issuer: Issuer) -> Head:
    """Return the head of an empty revocation list: the record with its properties.

    The list of a deleted authority expires with its last entry.
    """
    is_there = authorities.read(issuer.account, issuer.id) is not None
    return Head(issuer.id, issuer.account, issuer.public_key, expires=None if is_there else 0)
