"""Certificates that the ACME issuer has obtained for reserved domains.

The issuer encrypts the private key before the certificate exists. The encryption context has the certificate's future
id. The encrypted key is stored with the unfinished order, so another issuer process can complete the order without the
right to decrypt the key.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from chalicelib import clock, ids
from chalicelib.model.audit import trail
from chalicelib.model.base import kinds, records
from chalicelib.model.base.kinds import EDGE
from chalicelib.model.changes import Change
from chalicelib.model.names import renewal_schedule, replaced_certificates
from chalicelib.model.names.renewal_schedule import DueRenewal
from chalicelib.model.names.reservations import ReservedDomain
from chalicelib.model.tls import renewals
from chalicelib.model.tls.renewals import Method, Renewal
from chalicelib.model.tls.tls_certificates import RESERVATION, TlsCertificate
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, ConditionFailed, Write
from chalicelib.storage.records import decoding, items, table, writes
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.references import replace_references

if TYPE_CHECKING:
    from chalicelib.crypto.chains import Chain

RecordResult = Literal["recorded", "overtaken", "unwanted"]

ORDERS, _REVOCATIONS = items.scope(EDGE, "/orders"), items.scope(EDGE, "/revocations")
_KEPT_FOR = 7 * 24 * 60 * 60  # seconds for which an order is stored; the CA deletes an unfinished order earlier


@dataclass(frozen=True)
class UnfinishedOrder:
    """An order at the CA that is not complete: the certificate signing request, and the encrypted private key."""

    url: str
    domain: str
    method: Method
    certificate_id: str
    request: bytes  # the certificate signing request in DER
    key: bytes = field(repr=False)


class LostCertificate(NamedTuple):
    """An issued certificate that must be revoked: its account lost the domain, or does not need the certificate.

    `chain` is the certificate chain as PEM if the certificate was not stored. `attempts` is the number of failed
    attempts to revoke the certificate, `due_at` the Unix second of the next attempt.
    """

    account: str
    certificate_id: str
    chain: str = ""
    attempts: int = 0
    due_at: int = 0


def put_order(due: DueRenewal, order: UnfinishedOrder) -> None:
    """Store an unfinished order of a reservation. It replaces an earlier order. Raises aws.Unavailable."""
    record = {"body": vars(order), "expires": clock.seconds() + _KEPT_FOR, "revision": 1}
    dynamodb.do(Write.put({"scope": ORDERS, "id": _id(due), **record}))


def find_order(due: DueRenewal) -> UnfinishedOrder | None:
    """Return the unfinished order of a reservation, or None. Raises MalformedRecord, aws.Unavailable."""
    record = dynamodb.get(ORDERS, _id(due))
    return decoding.decode(UnfinishedOrder, record["body"]) if record else None


def remove_order(due: DueRenewal) -> Write:
    """Return the write that removes the unfinished order of a reservation, if there is one."""
    return Write.delete(ORDERS, _id(due))


def drop_order(due: DueRenewal) -> None:
    """Remove the unfinished order of a reservation, if there is one. Raises aws.Unavailable."""
    dynamodb.do(remove_order(due))


def record(
    due: DueRenewal, order: UnfinishedOrder, chain: "Chain", renewal: Renewal, other_writes: Iterable[Write] = ()
) -> RecordResult:
    """Store an issued certificate, and refer to it in the reservation, in one transaction.

    The transaction also contains an audit event and `other_writes`, and releases the reservation's entry in the
    schedule, which this issuer has claimed. If the reservation's policy now requires another type of key, another order
    becomes due. Nothing is written if another issuer has claimed the entry, or if the policy or the proof of the domain
    has ended. Raises aws.Unavailable.
    """
    before = table.find(due.entry.scope, due.entry.reservation)
    if before is None or not renewal_schedule.has_policy(before) or _is_lost(before):
        return "unwanted"
    done, issued = replace(renewal, is_claimed=False, certificate_id=order.certificate_id), _item(due, order, chain)
    if not _has_wanted_key(issued, before):
        done = renewals.order_again(done, clock.seconds())
    change = Change(trail.EDGE).put(issued, more={RESERVATION: before.id})
    after = _refer_to_certificate(before, order.certificate_id, done)
    rewrites = (*writes.rewrite(before, after), *due.entry.replace(done), *_replace(before, order), remove_order(due))
    try:
        change.add(*rewrites, *other_writes).commit()
    except writes.Overtaken:
        return "overtaken"
    return "recorded"


def _is_lost(reservation: Item) -> bool:
    """Return whether the proof of the domain has ended, for example because another account has proved it."""
    progress = ReservedDomain.of(reservation.body).progress
    return progress is not None and progress.status == "lapsed"


def covers(account: str, certificate_id: str, domain: str) -> bool:
    """Return whether a certificate covers a domain.

    Always true for a certificate that is not found, malformed or uploaded. Raises aws.Unavailable.
    """
    item = table.find(items.scope(account, kinds.TLS_CERTIFICATES.path), certificate_id)
    if item is None or item.malformed or RESERVATION not in item.unseen:
        return True
    names = records.decode(TlsCertificate, item).subject_alternative_names.get("dns_names", [])
    return not {domain, f"*.{domain.partition('.')[2]}"}.isdisjoint(names)


def find_reservation(certificate: Item) -> Item | None:
    """Return the reservation that a certificate was issued for, or None. Raises aws.Unavailable."""
    id = certificate.unseen.get(RESERVATION)
    if not isinstance(id, str):
        return None
    reservation = table.find(items.scope(certificate.account, kinds.RESERVED_DOMAINS.path), id)
    return reservation if reservation and renewal_schedule.has_policy(reservation) else None


def find_renewal(account: str, certificate_id: str) -> DueRenewal | None:
    """Return the entry in the renewal schedule for an issued certificate. Return None if there is none.

    Raises MalformedRecord, aws.Unavailable.
    """
    item = table.find(items.scope(account, kinds.TLS_CERTIFICATES.path), certificate_id)
    reservation = item.unseen.get(RESERVATION) if item else None
    return renewal_schedule.find(account, reservation) if isinstance(reservation, str) else None


def withdraw(reservation: Item) -> tuple[Item, list[Write]]:
    """Remove the issued certificate from a reservation that has lost its domain. Return the changed reservation.

    Also return the writes that make the issuer revoke the certificate. If the domain is proved again, the issuer orders
    another certificate.
    """
    renewal = renewal_schedule.read_valid(reservation)
    id = reservation.body.get("issued_certificate_id") or (renewal.certificate_id if renewal else "")
    reservation, other_writes = renewal_schedule.lose(reservation, clock.seconds())
    if not id:
        return reservation, other_writes
    body = {name: value for name, value in reservation.body.items() if name != "issued_certificate_id"}
    other_writes.append(_put_lost(reservation.account, id, {}))
    if id != reservation.body.get("certificate_id"):
        return replace(reservation, body=body), other_writes
    references = replace_references(reservation.references, {"": ()})
    return replace(reservation, body={**body, "certificate_id": ""}, references=references), other_writes


def give_up(due: DueRenewal, order: UnfinishedOrder, chain: str) -> None:
    """Schedule the revocation of an issued certificate that is not needed, and remove the unfinished order.

    Raises aws.Unavailable.
    """
    lost = _put_lost(due.entry.account, order.certificate_id, {"chain": chain})
    dynamodb.transact([lost, remove_order(due)])


def find_lost(now: int) -> list[LostCertificate]:
    """Return the certificates that must be revoked now. Raises aws.Unavailable."""
    certificates = (_decode_lost(item) for item in table.list_newest(_REVOCATIONS))
    return [certificate for certificate in certificates if certificate.due_at <= now]


def postpone_lost(lost: LostCertificate, due_at: int) -> None:
    """Postpone the revocation of a certificate after a failed attempt, unless it was revoked meanwhile.

    Raises aws.Unavailable.
    """
    sets = {"body.attempts": lost.attempts + 1, "body.due_at": due_at}
    id = f"{lost.account}/{lost.certificate_id}"
    with suppress(ConditionFailed):
        dynamodb.do(Write.update(_REVOCATIONS, id, Condition("attribute_exists(#id)"), sets=sets))


def read_chain(account: str, certificate_id: str) -> str | None:
    """Return the chain of a certificate as PEM. Return None if it was deleted. Raises aws.Unavailable."""
    item = table.read(items.scope(account, kinds.TLS_CERTIFICATES.path), certificate_id)
    return records.decode(TlsCertificate, item).certificate_pem if item else None


def forget_lost(lost: LostCertificate) -> None:
    """Remove the record of a lost certificate after its revocation. Raises aws.Unavailable."""
    dynamodb.do(Write.delete(_REVOCATIONS, f"{lost.account}/{lost.certificate_id}"))


def _decode_lost(item: Item) -> LostCertificate:
    account, _, id = item.id.partition("/")
    return LostCertificate(account, id, **item.body)


def _put_lost(account: str, id: str, body: Mapping[str, str]) -> Write:
    return Write.put({"scope": _REVOCATIONS, "id": f"{account}/{id}", "body": body, "revision": 1})


def _replace(before: Item, order: UnfinishedOrder) -> list[Write]:
    """Return the write that schedules the deletion of the certificate that the order's certificate replaces.

    Return no write if the reservation has no earlier issued certificate.
    """
    id = before.body.get("issued_certificate_id")
    if not id or id == order.certificate_id:
        return []
    return [replaced_certificates.schedule(before.account, id, order.certificate_id, clock.seconds())]


def _item(due: DueRenewal, order: UnfinishedOrder, chain: "Chain") -> Item:
    issued_at = clock.rfc3339(clock.now())
    domain = ReservedDomain.of(due.item.body).domain if due.item else ""
    stored = TlsCertificate.of_chain(chain, f"Issued for {domain}", issued_at=issued_at)
    return Item(
        items.scope(due.entry.account, kinds.TLS_CERTIFICATES.path),
        order.certificate_id,
        {**stored.pack(), "created_at": ids.time_of(order.certificate_id)},
        unseen={RESERVATION: due.entry.reservation},
        sealed={"private_key": order.key},
    )


def _has_wanted_key(issued: Item, reservation: Item) -> bool:
    policy = ReservedDomain.of(reservation.body).policy
    return policy is None or issued.body["private_key_type"] == policy.private_key_type


def _refer_to_certificate(before: Item, id: str, renewal: Renewal) -> Item:
    """Return the next revision of a reservation, which refers to an issued certificate."""
    return replace(
        before,
        body={**before.body, "certificate_id": id, "issued_certificate_id": id},
        unseen={**before.unseen, renewal_schedule.RENEWAL: vars(renewal)},
        references=replace_references(before.references, {"": ()}),
        revision=items.choose_revision(before),
    )


def _id(due: DueRenewal) -> str:
    return f"{due.entry.account}/{due.entry.reservation}"
