"""Issued certificates that another one has replaced. They stay for a day, or while Envoy rejects the new one."""

from dataclasses import dataclass

from chalicelib.model.audit import trail
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import EDGE
from chalicelib.model.changes import Change
from chalicelib.model.edges import edge_status
from chalicelib.model.names import renewal_schedule
from chalicelib.model.names.renewal_schedule import DueRenewal
from chalicelib.model.tls.tls_certificates import RESERVATION
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import items, table, writes

_SCOPE = items.scope(EDGE, "/replaced")
_STAYS_FOR = 24 * 60 * 60  # seconds


@dataclass(frozen=True)
class ReplacedCertificate:
    """A replaced certificate of an account. The `id` of its entry begins with the time of its deletion."""

    id: str
    account: str
    certificate_id: str
    replaced_by: str


@dataclass(frozen=True)
class RejectedCertificate:
    """A certificate of an account that Envoy rejects on a live edge host."""

    account: str
    certificate_id: str


def schedule(account: str, certificate_id: str, replaced_by: str, now: int) -> Write:
    """Return the write that makes a certificate due for deletion a day after its replacement."""
    id = f"{now + _STAYS_FOR:010}/{account}/{certificate_id}"
    return Write.put({"scope": _SCOPE, "id": id, "body": {"replaced_by": replaced_by}, "revision": 1})


def find_due(now: int) -> list[ReplacedCertificate]:
    """Return the certificates that are due for deletion. Raises aws.Unavailable."""
    found = []
    for item in table.between(_SCOPE, "0", f"{now:010}~"):
        _, account, certificate_id = (*item.id.split("/"), "", "")[:3]
        found.append(ReplacedCertificate(item.id, account, certificate_id, f"{item.body.get('replaced_by')}"))
    return found


def list_rejected() -> frozenset[RejectedCertificate]:
    """Return the certificates that live edge hosts report as rejected. Raises aws.Unavailable."""
    reports = (it for host in edge_status.list_hosts() for it in edge_status.read_statuses(host))
    return frozenset(RejectedCertificate(*it) for it in reports if kinds.TLS_CERTIFICATES.has(it[1]))


def find_renewal(account: str, certificate_id: str) -> DueRenewal | None:
    """Return the state of the domain that a certificate was issued for, or None.

    Raises MalformedRecord, aws.Unavailable.
    """
    item = table.find(items.scope(account, kinds.TLS_CERTIFICATES.path), certificate_id)
    reservation = item.unseen.get(RESERVATION) if item else None
    return renewal_schedule.find(account, reservation) if isinstance(reservation, str) else None


def delete(replaced: ReplacedCertificate) -> bool:
    """Delete a replaced certificate, with an event. Return whether it still existed. Raises aws.Unavailable."""
    done = Write.delete(_SCOPE, replaced.id)

    def attempt() -> bool:
        item = table.find(items.scope(replaced.account, kinds.TLS_CERTIFICATES.path), replaced.certificate_id)
        if item is None or RESERVATION not in item.unseen:  # the account has deleted it, or it is not an issued one
            dynamodb.do(done)
            return False
        Change(trail.EDGE).remove(item).also(done).commit()
        return True

    return writes.retried(attempt)
