"""Revokes certificates of domains that an account has lost.

Also deletes certificates that were replaced, and orders another certificate if Envoy rejects one.
"""

import asyncio
import random
import time
from collections.abc import Callable
from typing import Protocol

from cryptography import x509

from chalicelib.model.edges import edge_status
from chalicelib.model.edges.edge_status import RejectedCertificate
from chalicelib.model.names import issued_certificates, renewal_schedule, replaced_certificates
from chalicelib.model.names.issued_certificates import LostCertificate
from chalicelib.model.names.replaced_certificates import ReplacedCertificate
from chalicelib.storage.client import aws
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.references import InUse
from edge.issuer.attempts import CESSATION, AttemptFailed
from edge.issuer.rules import outcomes
from edge.process import log
from edge.process.tasks import PeriodicTask

_AT_ONCE = 100  # the most certificates that are revoked after one read


class RevokingCa(Protocol):
    """Sends requests for revocations to the CA. The method blocks."""

    def revoke(self, certificate: x509.Certificate, reason: int) -> None:
        """Revoke a certificate. Raises AttemptFailed."""


class Retired:
    """Revokes and deletes certificates.

    Several issuers can do this at the same time, because each step can be repeated.
    """

    def __init__(
        self,
        ca: RevokingCa,
        interval: float,
        *,
        now: Callable[[], float] = time.time,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._ca, self._interval, self._now, self._random = ca, interval, now, random

    async def serve(self) -> None:
        """Revoke, replace and delete certificates, until cancelled."""
        await PeriodicTask("retired", self._run, self._interval, failures=aws.AwsError).run()

    async def _run(self) -> None:
        await asyncio.to_thread(self.revoke_lost)
        await asyncio.to_thread(self.replace_rejected)
        await asyncio.to_thread(self.delete_replaced)

    def revoke_lost(self) -> None:
        """Revoke the certificates of lost domains, and new certificates that are not needed. Raises aws.AwsError.

        If one certificate cannot be revoked, the others are revoked all the same. The failed revocation is repeated
        until the certificate expires, at the same intervals as a failed order.
        """
        now = int(self._now())
        for certificate in issued_certificates.find_lost(now)[:_AT_ONCE]:
            try:
                self._revoke(certificate)
            except AttemptFailed as failed:
                log.event(
                    "ca_failed", code=failed.failure.code, reason=failed.reason, certificate=certificate.certificate_id
                )
                retries_at = outcomes.find_retry(certificate.attempts, now, self._random())
                issued_certificates.postpone_lost(certificate, max(retries_at, failed.failure.not_before))
            except MalformedRecord:
                log.event("certificate_malformed", certificate=certificate.certificate_id)

    def _revoke(self, record: LostCertificate) -> None:
        """Revoke a certificate, unless it is deleted or has expired. Raises AttemptFailed, aws.AwsError."""
        if pem := record.chain or issued_certificates.read_chain(record.account, record.certificate_id):
            certificate = x509.load_pem_x509_certificate(pem.encode())
            if certificate.not_valid_after_utc.timestamp() > self._now():
                self._ca.revoke(certificate, CESSATION)
                log.event("certificate_revoked", certificate=record.certificate_id)
        issued_certificates.forget_lost(record)

    def replace_rejected(self) -> None:
        """For each certificate that Envoy rejects, schedule another order a day later. Raises aws.AwsError."""
        for rejected in edge_status.list_rejected_certificates():
            try:
                self._replace(rejected)
            except MalformedRecord:
                log.event("certificate_malformed", certificate=rejected.certificate_id)

    def _replace(self, rejected: RejectedCertificate) -> None:
        """Schedule another order for a rejected certificate, unless an order is running.

        Raises MalformedRecord, aws.AwsError.
        """
        due, id = issued_certificates.find_renewal(rejected.account, rejected.certificate_id), rejected.certificate_id
        renewal = due.entry.renewal if due else None
        if due is None or renewal is None or renewal.certificate_id != id or renewal.is_claimed or renewal.started_at:
            return
        if renewal_schedule.postpone(due, outcomes.reject(renewal, int(self._now()))):
            log.event("ca_failed", code="internal", reason="Envoy rejects the certificate", certificate=id)

    def delete_replaced(self) -> None:
        """Delete certificates a day after they were replaced. Raises aws.AwsError.

        While Envoy rejects the new certificate, the replaced certificate is not deleted.
        """
        due = replaced_certificates.find_due(int(self._now()))
        rejected = edge_status.list_rejected_certificates() if due else frozenset()
        for replaced in due:
            try:
                if self._is_needed(replaced, rejected):
                    continue
                if replaced_certificates.delete(replaced):
                    log.event("replaced_certificate_deleted", certificate=replaced.certificate_id)
            except (InUse, MalformedRecord) as error:  # InUse is raised for example if an edge names the certificate
                log.event("replaced_certificate_kept", certificate=replaced.certificate_id, error=type(error).__name__)

    def _is_needed(self, replaced: ReplacedCertificate, rejected: frozenset[RejectedCertificate]) -> bool:
        """Return whether an edge host may still serve a replaced certificate. Raises MalformedRecord, aws.AwsError.

        An edge host serves the replaced certificate while its Envoy rejects the new one. After a restart, a host
        reports the rejection again only when a visitor requests the name. So the entry in the renewal schedule is read
        too. The entry contains the rejection until another certificate is issued.
        """
        if RejectedCertificate(replaced.account, replaced.replaced_by) in rejected:
            return True
        due = issued_certificates.find_renewal(replaced.account, replaced.certificate_id)
        return due is not None and due.entry.renewal.started_at > 0 and due.entry.renewal.renews_at > self._now()
