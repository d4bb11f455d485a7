"""One attempt at the certificate of a claimed domain, from the preflight to the stored certificate. Blocks."""

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from cryptography import x509

from chalicelib import ids
from chalicelib.model.names import issued_certificates, renewal_schedule
from chalicelib.model.names.issued_certificates import UnfinishedOrder
from chalicelib.model.names.renewal_schedule import DueRenewal
from chalicelib.model.names.reservations import ReservedDomain
from chalicelib.model.tls import certificate_policies, challenge_records
from chalicelib.model.tls.challenge_records import PendingChallenge
from chalicelib.model.tls.renewals import Method, Renewal
from chalicelib.storage import vault
from edge.issuer import ordering
from edge.issuer.attempts import AttemptFailed, Challenge
from edge.issuer.ordering import Obtained, OrderingCa, Wanted
from edge.issuer.rules import outcomes, renewal_times
from edge.issuer.rules.renewal_times import Plan, RenewalWindow, Validity

_ORDER_TIME = 300  # seconds for one order: half of a claim
_logger = logging.getLogger("tunnel_edge")


class AttemptCa(OrderingCa, Protocol):
    """The CA, with its renewal information."""

    def renewal_window(self, certificate: x509.Certificate) -> RenewalWindow | None:
        """Return when the CA suggests to renew, or None. Raises AttemptFailed."""


class TxtWriter(Protocol):
    """Writes the TXT record of a challenge at the target of an alias. Raises AttemptFailed."""

    def add(self, name: str, value: str) -> None:
        """Add a TXT record, and wait until all name servers have it."""

    def remove(self, name: str) -> None:
        """Remove the TXT records of a name, if there are any."""


Preflight = Callable[[ReservedDomain, Renewal], Method]  # raises AttemptFailed


@dataclass(frozen=True)
class Attempt:
    """An attempt of one issuer. `txt` is None if the operator offers no challenges by DNS."""

    ca: AttemptCa
    preflight: Preflight
    txt: TxtWriter | None = None
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random

    def run(self, due: DueRenewal) -> None:
        """Make an attempt at a claimed entry, and store its outcome. Raises aws.Unavailable."""
        stored, renewal = due.stored, due.entry.renewal
        if stored is None:
            self._clean(due)
            return
        try:
            if plan := self._plan_to_wait(due, renewal):
                renewal_schedule.conclude(due, outcomes.postpone(renewal, plan), self._second)
                return
            self._record(due, self._obtain(due, stored, renewal))
        except AttemptFailed as failed:
            _logger.warning("Order for %s failed: %s", stored.domain, failed.reason)
            failure = outcomes.fail(renewal, failed.failure, self._second, self.random())
            renewal_schedule.conclude(due, failure, self._second)

    @property
    def _second(self) -> int:
        return int(self.now())

    def _plan_to_wait(self, due: DueRenewal, renewal: Renewal) -> Plan | None:
        """Return the plan of a certificate that does not have to be renewed yet, or None. Raises AttemptFailed."""
        certificate = self._certificate(due, renewal)
        if renewal.started_at or certificate is None:
            return None
        plan = self._plan(renewal.certificate_id, certificate)
        return plan if plan.renews_at > self._second else None

    def _obtain(self, due: DueRenewal, stored: ReservedDomain, renewal: Renewal) -> Obtained:
        store = _DomainStore(due, stored.domain, self.txt)
        order = store.find()
        method = order.method if order else self.preflight(stored, renewal)
        store.method = method
        is_renewal = 0 < renewal.renews_at <= self._second
        replaces = self._certificate(due, renewal) if is_renewal else None
        key_type = stored.policy.private_key_type if stored.policy else "ecdsa"
        wanted = Wanted(stored.domain, key_type, method, replaces)
        until = self.now() + _ORDER_TIME
        return ordering.obtain(wanted, self.ca, store, until=until, now=self.now, sleep=self.sleep)

    def _record(self, due: DueRenewal, obtained: Obtained) -> None:
        certificate = x509.load_pem_x509_certificate(obtained.chain.pem.encode())
        plan = self._plan(obtained.order.certificate_id, certificate)
        done = outcomes.succeed(due.entry.renewal, obtained.order.certificate_id, plan, _validity(certificate))
        if not issued_certificates.record(due, obtained.order, obtained.chain, done):
            _logger.warning("A certificate of %s is not used: the policy has ended.", due.entry.reservation)

    def _plan(self, id: str, certificate: x509.Certificate) -> Plan:
        try:
            window = self.ca.renewal_window(certificate)
        except AttemptFailed as failed:  # a certificate is renewed in time without the CA's suggestion
            _logger.warning("The renewal information of %s cannot be read: %s", id, failed.reason)
            window = None
        return renewal_times.plan(id, _validity(certificate), window, self._second)

    def _certificate(self, due: DueRenewal, renewal: Renewal) -> x509.Certificate | None:
        """Return the issued certificate of a domain, or None without one."""
        if not renewal.certificate_id:
            return None
        pem = issued_certificates.read_chain(
            issued_certificates.LostCertificate(due.entry.account, renewal.certificate_id)
        )
        return x509.load_pem_x509_certificate(pem.encode()) if pem else None

    def _clean(self, due: DueRenewal) -> None:
        """Remove what an attempt has left of a domain without a policy, and its entry."""
        if order := issued_certificates.find_order(due):
            _DomainStore(due, order.domain, self.txt, order.method).withdraw()
            issued_certificates.drop_order(due)
        renewal_schedule.conclude(due, due.entry.renewal, self._second)


def _validity(certificate: x509.Certificate) -> Validity:
    times = (certificate.not_valid_before_utc, certificate.not_valid_after_utc)
    return Validity(*(int(it.timestamp()) for it in times))


@dataclass
class _DomainStore:
    """The order of one domain in the table, and the answers of its challenges."""

    due: DueRenewal
    domain: str
    txt: TxtWriter | None
    method: Method = "http-01"

    def find(self) -> UnfinishedOrder | None:
        return issued_certificates.find_order(self.due)

    def put(self, order: UnfinishedOrder) -> None:
        issued_certificates.put_order(self.due, order)

    def drop(self) -> None:
        issued_certificates.drop_order(self.due)

    def seal(self, key: bytes) -> tuple[str, bytes]:
        id = ids.new("cert")
        return id, vault.seal(key, vault.context(self.due.entry.account, id))

    def publish(self, challenge: Challenge) -> None:
        if self.method == "http-01":
            challenge_records.put(self.domain, PendingChallenge(challenge.token, challenge.value))
        elif self.txt:
            self.txt.add(certificate_policies.alias_target(self.due.entry.reservation), challenge.value)

    def withdraw(self) -> None:
        if self.method == "http-01":
            challenge_records.remove(self.domain)
        elif self.txt:
            self.txt.remove(certificate_policies.alias_target(self.due.entry.reservation))
