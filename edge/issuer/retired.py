"""Revocation of certificates of lost domains, and deletion of replaced certificates."""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from cryptography import x509

from chalicelib.model.names import issued_certificates, replaced_certificates
from chalicelib.model.names.issued_certificates import LostCertificate
from chalicelib.storage.client import aws
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.references import InUse
from edge.issuer.attempts import AttemptFailed
from edge.process import log
from edge.process.tasks import PeriodicTask

_AT_ONCE = 100  # revocations after one read
_CESSATION = 5  # the reason "cessation of operation" (RFC 5280, section 5.3.1)


class RevokingCa(Protocol):
    """The CA. Every method blocks."""

    def revoke(self, certificate: x509.Certificate, reason: int) -> None:
        """Revoke a certificate. Raises AttemptFailed."""


class Retired:
    """Revokes and deletes certificates. All issuers do, because each step can be repeated."""

    def __init__(self, ca: RevokingCa, interval: float, *, now: Callable[[], float] = time.time) -> None:
        self._ca, self._interval, self._now = ca, interval, now

    async def serve(self) -> None:
        """Revoke and delete certificates, until cancelled."""
        await PeriodicTask("retired", self._run, self._interval, failures=aws.AwsError).run()

    async def _run(self) -> None:
        await asyncio.to_thread(self.revoke_lost)
        await asyncio.to_thread(self.delete_replaced)

    def revoke_lost(self) -> None:
        """Revoke certificates of domains that another account has proved. Raises aws.AwsError.

        One that cannot be revoked is tried again after the interval, and delays no other.
        """
        for lost in issued_certificates.find_lost(_AT_ONCE):
            try:
                self._revoke(lost)
            except AttemptFailed as failed:
                log.event("ca_failed", code=failed.failure.code, reason=failed.reason)
            except MalformedRecord:
                log.event("certificate_malformed", certificate=lost.certificate_id)

    def _revoke(self, lost: LostCertificate) -> None:
        """Revoke a certificate, unless it was deleted or has ended. Raises AttemptFailed, aws.AwsError."""
        if pem := issued_certificates.read_chain(lost.account, lost.certificate_id):
            certificate = x509.load_pem_x509_certificate(pem.encode())
            if certificate.not_valid_after_utc.timestamp() > self._now():
                self._ca.revoke(certificate, _CESSATION)
                log.event("certificate_revoked", certificate=lost.certificate_id)
        issued_certificates.forget_lost(lost)

    def delete_replaced(self) -> None:
        """Delete certificates that were replaced a day ago. Raises aws.AwsError."""
        for replaced in replaced_certificates.find_due(int(self._now())):
            try:
                if replaced_certificates.delete(replaced):
                    log.event("replaced_certificate_deleted", certificate=replaced.certificate_id)
            except (InUse, MalformedRecord) as error:  # the account uses it elsewhere
                log.event("replaced_certificate_kept", certificate=replaced.certificate_id, error=type(error).__name__)
