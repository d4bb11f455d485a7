"""Automatic certificates that a newer one has replaced.

A replaced certificate stays for a day, and longer if Envoy rejects the new certificate.
"""

from dataclasses import dataclass

from chalicelib.model.audit import trail
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import EDGE
from chalicelib.model.changes import Change
from chalicelib.model.tls.tls_certificates import RESERVATION
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import items, table, writes

_SCOPE = items.scope(EDGE, "/replaced")
_STAYS_FOR = 24 * 60 * 60  # seconds from the replacement of a certificate until its deletion


@dataclass(frozen=True)
class ReplacedCertificate:
    """A replaced certificate of an account. The `id` of its entry starts with the time at which it will be deleted."""

    id: str
    account: str
    certificate_id: str
    replaced_by: str


def schedule(account: str, certificate_id: str, replaced_by: str, now: int) -> Write:
    """Return the write that schedules the deletion of a certificate for a day after its replacement."""
    id = f"{now + _STAYS_FOR:010}/{account}/{certificate_id}"
    return Write.put({"scope": _SCOPE, "id": id, "body": {"replaced_by": replaced_by}, "revision": 1})


def find_due(now: int) -> list[ReplacedCertificate]:
    """Return the replaced certificates that must be deleted now. Raises aws.Unavailable."""
    certificates = []
    for item in table.read_between(_SCOPE, "0", f"{now:010}~"):
        _, account, certificate_id = (*item.id.split("/"), "", "")[:3]
        certificates.append(ReplacedCertificate(item.id, account, certificate_id, f"{item.body.get('replaced_by')}"))
    return certificates


def delete(replaced: ReplacedCertificate) -> bool:
    """Delete a replaced certificate, with an audit event. Return False if there was nothing to delete.

    Raises aws.Unavailable.
    """
    done = Write.delete(_SCOPE, replaced.id)

    def attempt() -> bool:
        item = table.find(items.scope(replaced.account, kinds.TLS_CERTIFICATES.path), replaced.certificate_id)
        # there is nothing to delete: the account has deleted the certificate, or it was not issued automatically
        if item is None or RESERVATION not in item.unseen:
            dynamodb.do(done)
            return False
        Change(trail.EDGE).remove(item).add(done).commit()
        return True

    return writes.retry(attempt)
