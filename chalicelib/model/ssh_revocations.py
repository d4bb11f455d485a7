"""Revocations of SSH authorities: a record of each, which can be listed, and an entry of the list that servers fetch.

Both change in one transaction. The list outlives its authority, until its last entry has ended.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from chalicelib import clock, crypto, ids
from chalicelib.model import kinds, ssh_authorities
from chalicelib.model.audit import Trail
from chalicelib.storage import aws, items, revocation_lists, table
from chalicelib.storage.dynamodb import Write
from chalicelib.storage.items import Item
from chalicelib.storage.relations import Meaning
from chalicelib.storage.revocation_lists import Chunk, Head, ListFull, Overtaken

T = TypeVar("T")
Writes = Sequence[tuple[Write, Meaning]]
FIELDS = {
    kinds.SSH_USER_CERTIFICATES: "ssh_user_certificate_id",
    kinds.SSH_HOST_CERTIFICATES: "ssh_host_certificate_id",
}


class AlreadyRevoked(Exception):
    """The list holds the serial or key already."""


@dataclass(frozen=True)
class Authority:
    """The SSH authority of a list; it may be deleted by now. `public_key` is one authorized_keys line."""

    account: str
    id: str
    public_key: str

    @property
    def scope(self) -> str:
        """Return the storage scope of the records of its revocations."""
        return items.scope(self.account, kinds.SSH_REVOCATIONS.path.format(id=self.id))


@dataclass(frozen=True)
class Subject:
    """A certificate, serial or key that is revoked: the entry of the list, and the fields of the record."""

    entry: "crypto.packed_revocations.Entry"
    fields: Mapping[str, Any]


def find(account: str, id: str) -> Authority | None:
    """Return an authority whose list can be changed, None when the account has none. Raises aws.Unavailable."""
    head = revocation_lists.read(id)
    if head:
        return Authority(account, id, head.public_key) if head.account == account else None
    found = ssh_authorities.read(account, id)  # of the first edition, which made no lists
    return Authority(account, id, found.body["public_key"]) if found else None


def of_serial(serial: str) -> Subject:
    """Return the subject of a revocation by serial, a decimal number, whose end is not known."""
    return subject_of({"serial": serial})


def of_key(public_key: str) -> Subject:
    """Return the subject of a revocation of a public key and all its certificates. Raises ValueError."""
    fingerprint = crypto.public_keys.fingerprint(public_key)
    entry = crypto.packed_revocations.RevokedKey(crypto.public_keys.digest(fingerprint))
    return Subject(entry, {"public_key": public_key, "key_fingerprint": fingerprint})


def of_certificate(certificate: Item) -> Subject:
    """Return the subject of a revocation of a user or host certificate, which ends when the certificate does."""
    serial = crypto.ssh_certificates.read(certificate.body["certificate"]).serial
    named = {FIELDS[kinds.of(certificate.id)]: certificate.id}
    return subject_of({**named, "serial": str(serial), "valid_until": certificate.body["valid_until"]})


def subject_of(record: Mapping[str, Any]) -> Subject:
    """Return what the body of a record says was revoked. Raises KeyError, ValueError."""
    if "public_key" in record:
        return of_key(record["public_key"])
    until = record.get("valid_until")
    end = int(clock.parse(until).timestamp()) if until else None
    named = {name: record[name] for name in (*FIELDS.values(), "serial", "valid_until") if name in record}
    return Subject(crypto.packed_revocations.RevokedSerial(int(record["serial"]), end), named)


def details(body: Mapping[str, Any], serial: int) -> dict[str, Any]:
    """Return the `details` of the audit events of a certificate, from the body of its record and its serial."""
    shown = ("ssh_certificate_authority_id", "principals", "valid_after", "valid_until")
    return {
        **{name: body[name] for name in shown},
        "serial": str(serial),
        "key_fingerprint": crypto.public_keys.fingerprint(body["public_key"]),
    }


def _details_of(certificate: Item) -> dict[str, Any]:
    return details(certificate.body, crypto.ssh_certificates.read(certificate.body["certificate"]).serial)


def end_of(certificate: Item) -> int:
    """Return the Unix second at which a certificate ends."""
    return int(clock.parse(certificate.body["valid_until"]).timestamp())


def revoke(authority: Authority, subject: Subject, reason: str, by: Trail, first: Callable[[Item], Writes]) -> Item:
    """Revoke and return the record; `first` returns the writes that go before it in the transaction.

    Raises AlreadyRevoked, ListFull, what a write of `first` means, aws.Unavailable.
    """
    record = _record(authority, subject, reason)
    event = by.made(record)

    def act(is_new: bool, writes: Writes) -> Item:
        if is_new:
            table.create(record, event, first=first(record), beside=writes)
        elif table.read(record.scope, record.id) is None:  # else the answer to an earlier try was lost
            raise AlreadyRevoked
        return record

    return _add(authority, subject.entry, act)


def delete_certificate(scope: str, id: str, *, check: Callable[[Item], None], by: Trail) -> bool:
    """Remove a certificate and revoke it unless it has ended, all or nothing; False when there is none.

    Raises what `check` raises of the certificate; ListFull, aws.Unavailable.
    """
    certificate, also = table.read(scope, id), by.telling("delete", details=_details_of)
    if certificate is None or end_of(certificate) <= items.now():
        return table.delete(scope, id, check=check, also=also)
    signed = crypto.ssh_certificates.read(certificate.body["certificate"])
    authority = Authority(certificate.account, certificate.body["ssh_certificate_authority_id"], signed.authority)
    subject = of_certificate(certificate)
    record = _record(authority, subject, "")

    def act(is_new: bool, writes: Writes) -> bool:
        recorded = [(table.creating(record), None)] if is_new else []
        return table.delete(scope, id, check=check, also=also, beside=[*writes, *recorded])

    return _add(authority, subject.entry, act)


def take_back(scope: str, id: str, *, check: Callable[[Item], None], by: Trail) -> bool:
    """Remove a revocation and its entry, all or nothing; False when there is none. Raises aws.Unavailable."""
    record = table.read(scope, id)
    authority, also = items.above(scope), by.telling("delete")
    if record is None or authority is None:
        return False
    entry = subject_of(record.body).entry

    def act(head: Head, chunk: Chunk) -> bool:
        left = crypto.packed_revocations.remove(chunk.packed, entry)
        beside = revocation_lists.changing(head, chunk, left)
        return table.delete(scope, id, check=check, also=also, beside=beside)

    return _changed(Authority(record.account, authority[1], ""), entry, act)


def _record(authority: Authority, subject: Subject, reason: str) -> Item:
    id = ids.new(kinds.SSH_REVOCATIONS.prefix)
    created_at = clock.rfc3339(ids.created_at(id))
    body = {"created_at": created_at, **({"reason": reason} if reason else {}), **subject.fields}
    end = subject.entry.valid_until if isinstance(subject.entry, crypto.packed_revocations.RevokedSerial) else None
    return Item(authority.scope, id, body, expires=end)


def _add(authority: Authority, entry: "crypto.packed_revocations.Entry", act: Callable[[bool, Writes], T]) -> T:
    """Add an entry to the list; `act` writes it with what belongs to it, and is told whether the entry is new."""

    def change(head: Head, chunk: Chunk) -> T:
        live = crypto.packed_revocations.expire(chunk.packed, items.now())
        is_new = not crypto.packed_revocations.holds(live, entry)
        after = crypto.packed_revocations.add(live, entry) if is_new else live
        return act(is_new, revocation_lists.changing(head, chunk, after))

    try:
        return _changed(authority, entry, change)
    except ListFull:  # perhaps of entries that have ended
        head = revocation_lists.read(authority.id)
        if head is None or not revocation_lists.compact(head):
            raise
    return _changed(authority, entry, change)


def _changed(authority: Authority, entry: "crypto.packed_revocations.Entry", change: Callable[[Head, Chunk], T]) -> T:
    """Change a list as it is now, again when another came first. Raises aws.Unavailable."""
    for _ in table.tries():
        head = revocation_lists.read(authority.id) or _unstored(authority)
        try:
            return change(head, revocation_lists.chunk_of(authority.id, entry))
        except Overtaken:
            continue
        except aws.Unavailable as error:
            if not error.code.startswith("Transaction"):  # else it only met others
                raise
    raise aws.Unavailable("TransactionConflict")


def _unstored(authority: Authority) -> Head:
    """Return the head of a list that has no entries yet; it ends with them where the authority is gone."""
    is_there = ssh_authorities.read(authority.account, authority.id) is not None
    return Head(authority.id, authority.account, authority.public_key, expires=None if is_there else 0)
