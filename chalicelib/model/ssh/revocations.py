"""Revocations of SSH authorities: a record of each, which can be listed, and an entry of the list that servers fetch.

Both change in one transaction. The list outlives its authority, until its last entry has ended.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from chalicelib import clock, crypto, ids
from chalicelib.model import changes, kinds, records
from chalicelib.model.changes import Change
from chalicelib.model.records import Created
from chalicelib.model.ssh import authorities
from chalicelib.model.ssh.authorities import IssuedCertificate, SshAuthority
from chalicelib.storage import aws, decoding, items, revocation_lists, table, writes
from chalicelib.storage.decoding import MalformedRecord
from chalicelib.storage.dynamodb import Write
from chalicelib.storage.items import Item
from chalicelib.storage.revocation_lists import Chunk, Head, ListFull

T = TypeVar("T")
FIELDS = {
    kinds.SSH_USER_CERTIFICATES: "ssh_user_certificate_id",
    kinds.SSH_HOST_CERTIFICATES: "ssh_host_certificate_id",
}


class AlreadyRevoked(Exception):
    """The list holds the serial or key already."""


@dataclass(frozen=True)
class Issuer:
    """The SSH authority of a list; it may be deleted by now. `public_key` is one authorized_keys line."""

    account: str
    id: str
    public_key: str

    @property
    def scope(self) -> str:
        """Return the storage scope of the records of its revocations."""
        return items.scope(self.account, kinds.SSH_REVOCATIONS.path.format(id=self.id))


@dataclass(frozen=True, kw_only=True)
class Revocation(Created):
    """The stored form of a revocation of a certificate, a serial or a key; unknown fields are left out."""

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
        """Return its entry in the list. Raises MalformedRecord if it names no key and no serial."""
        try:
            if self.public_key:
                fingerprint = crypto.public_keys.fingerprint(self.public_key)
                return crypto.packed_revocations.RevokedKey(crypto.public_keys.digest(fingerprint))
            end = int(clock.parse(self.valid_until).timestamp()) if self.valid_until else None
            return crypto.packed_revocations.RevokedSerial(int(self.serial), end)
        except ValueError:
            raise MalformedRecord("Revocation", "serial", "must name a key or a serial and its end") from None


def find_issuer(account: str, id: str) -> Issuer | None:
    """Return an authority whose list can be changed, None when the account has none. Raises aws.Unavailable."""
    head = revocation_lists.read(id)
    if head:
        return Issuer(account, id, head.public_key) if head.account == account else None
    found = authorities.read(account, id)  # of the first edition, which made no lists
    return Issuer(account, id, records.decode(SshAuthority, found).public_key) if found else None


def revoke_key(public_key: str) -> Revocation:
    """Return the revocation of a public key and all its certificates. Raises ValueError."""
    return Revocation(public_key=public_key, key_fingerprint=crypto.public_keys.fingerprint(public_key))


def describe_certificate(item: Item) -> Revocation:
    """Return the revocation of a user or host certificate, which ends when the certificate does.

    Raises MalformedRecord.
    """
    certificate = records.decode(IssuedCertificate, item)
    return _describe_serial(item.id, certificate, certificate.signed().serial)


def _describe_serial(id: str, certificate: IssuedCertificate, serial: int) -> Revocation:
    field = FIELDS[kinds.of(id)]
    return Revocation(serial=str(serial), valid_until=certificate.valid_until, **{field: id})


def revoke(change: Change, issuer: Issuer, revocation: Revocation) -> Item:
    """Revoke and return the record. Raises AlreadyRevoked, ListFull, what `Change.commit` does."""
    record = _build_record(issuer, revocation)

    def add(is_new: bool, listed: list[Write]) -> Item:
        if is_new:
            change.put(record).also(*listed).commit()
        elif table.read(record.scope, record.id) is None:  # else the answer to an earlier try was lost
            raise AlreadyRevoked
        return record

    return _add(issuer, revocation.entry, add)


def delete_certificate(change: Change, scope: str, id: str) -> bool:
    """Remove a certificate and revoke it unless it has ended, all or nothing; False when there is none.

    Raises ListFull, and what `Change.commit` does.
    """
    item = table.find(scope, id)
    if item is None:
        return False
    try:
        certificate = _decode_revocable(item)
        signed = certificate.signed()
    except MalformedRecord as malformed:  # nothing says what to revoke
        decoding.report(item.scope, item.id, malformed)
        return changes.delete(change, scope, id)
    revocation = _describe_serial(item.id, certificate, signed.serial)
    issuer = Issuer(item.account, certificate.ssh_certificate_authority_id, signed.authority)
    record, fingerprint = _build_record(issuer, revocation), crypto.public_keys.fingerprint(certificate.public_key)
    details = authorities.audited_certificate(certificate, signed.serial, fingerprint)

    def add(is_new: bool, listed: list[Write]) -> bool:
        found = table.find(scope, id)
        if found:
            removed = change.remove(found, details=details).also(*listed)
            (removed.put(record) if is_new else removed).commit()
        return found is not None

    if certificate.end <= clock.seconds():
        return writes.retried(lambda: add(False, []))
    return _add(issuer, revocation.entry, add)


def remove(change: Change, scope: str, id: str) -> bool:
    """Remove a revocation and its entry, all or nothing; False when there is none. Raises what `Change.commit` does."""
    record, authority = table.find(scope, id), items.above(scope)
    if record is None or authority is None:
        return False
    try:
        entry = records.decode(Revocation, record).entry
    except MalformedRecord as malformed:  # what it revoked stays revoked
        decoding.report(scope, id, malformed)
        return changes.delete(change, scope, id)

    def remove(head: Head, chunk: Chunk) -> bool:
        found = table.find(scope, id)
        if found:
            left = crypto.packed_revocations.remove(chunk.packed, entry)
            change.remove(found).also(*revocation_lists.rewrite(head, chunk, left)).commit()
        return found is not None

    return _change_list(Issuer(record.account, authority[1], ""), entry, remove)


def _decode_revocable(item: Item) -> IssuedCertificate:
    """Return a certificate with the fields that its revocation needs. Other fields may be malformed.

    Raises MalformedRecord.
    """
    needed = ("certificate", "ssh_certificate_authority_id", "valid_until", "public_key", "principals", "valid_after")
    return records.decode(
        IssuedCertificate, replace(item, body={name: item.body[name] for name in needed if name in item.body})
    )


def _build_record(issuer: Issuer, revocation: Revocation) -> Item:
    id = ids.new(kinds.SSH_REVOCATIONS.prefix)
    body = replace(revocation, created_at=clock.rfc3339(ids.created_at(id))).to_record()
    entry = revocation.entry
    end = entry.valid_until if isinstance(entry, crypto.packed_revocations.RevokedSerial) else None
    return Item(issuer.scope, id, body, expires=end)


def _add(issuer: Issuer, entry: "crypto.packed_revocations.Entry", add: Callable[[bool, list[Write]], T]) -> T:
    """Add an entry to the list; `add` writes it with what belongs to it, and is told whether the entry is new."""

    def change(head: Head, chunk: Chunk) -> T:
        live = crypto.packed_revocations.expire(chunk.packed, clock.seconds())
        is_new = not crypto.packed_revocations.holds(live, entry)
        after = crypto.packed_revocations.add(live, entry) if is_new else live
        return add(is_new, revocation_lists.rewrite(head, chunk, after))

    try:
        return _change_list(issuer, entry, change)
    except ListFull:  # perhaps of entries that have ended
        head = revocation_lists.read(issuer.id)
        if head is None or not revocation_lists.compact(head):
            raise
    return _change_list(issuer, entry, change)


def _change_list(issuer: Issuer, entry: "crypto.packed_revocations.Entry", change: Callable[[Head, Chunk], T]) -> T:
    """Change a list as it is now, again when another came first. Raises aws.Unavailable."""

    def attempt() -> T:
        head = revocation_lists.read(issuer.id) or _new_head(issuer)
        try:
            return change(head, revocation_lists.chunk_of(issuer.id, entry))
        except aws.Unavailable as error:
            if error.code.startswith("Transaction"):  # it only met others
                raise writes.Overtaken from None
            raise

    return writes.retried(attempt)


def _new_head(issuer: Issuer) -> Head:
    """Return the head of a list that has no entries yet; it ends with them where the authority is gone."""
    is_there = authorities.read(issuer.account, issuer.id) is not None
    return Head(issuer.id, issuer.account, issuer.public_key, expires=None if is_there else 0)
