"""One attempt to obtain the certificate of a domain, from the preflight to the stored certificate. Blocks."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from cryptography import x509

from chalicelib.model.accounts import accounts
from chalicelib.model.names import issued_certificates, renewal_schedule
from chalicelib.model.names.issued_certificates import UnfinishedOrder
from chalicelib.model.names.renewal_schedule import DueRenewal
from chalicelib.model.names.reservations import ReservedDomain
from chalicelib.model.tls.renewals import Method, Renewal
from edge.issuer import key_making, ordering
from edge.issuer.attempts import AttemptFailed
from edge.issuer.key_making import MakeKey
from edge.issuer.order_counts import OrderCounts
from edge.issuer.ordering import Obtained, OrderingCa, OrderSpec
from edge.issuer.rules import outcomes, renewal_times
from edge.issuer.rules.renewal_times import Plan, RenewalWindow, Validity
from edge.issuer.stored_order import StoredOrder, TxtWriter
from edge.process import log

ORDER_TIME = 300  # the most seconds for one order. The claim lasts twice as long, so no other issuer interferes


class AttemptCa(OrderingCa, Protocol):
    """The requests to the CA that an attempt needs: orders, and renewal information."""

    @property
    def knows_renewals(self) -> bool:
        """Return whether the CA has renewal information, so that orders can name the replaced certificate."""

    def renewal_window(self, certificate: x509.Certificate) -> RenewalWindow | None:
        """Return when the CA suggests to renew, or None. Raises AttemptFailed."""


# Checks a reserved domain, given its id and its record. Returns which challenge to use. Raises AttemptFailed.
Preflight = Callable[[str, ReservedDomain], Method]


class Current(NamedTuple):
    """The latest certificate that was issued for a domain, and when to renew it."""

    certificate: x509.Certificate
    plan: Plan


@dataclass(frozen=True)
class Attempt:
    """Attempts to obtain certificates.

    `txt` writes TXT records for challenges by DNS. `txt` is None if no DNS zone is configured.
    """

    ca: AttemptCa
    preflight: Preflight
    txt: TxtWriter | None = None
    counts: OrderCounts = field(default_factory=OrderCounts)
    keys: MakeKey = key_making.make_in_child
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random

    def run(self, due: DueRenewal) -> None:
        """Make an attempt for a claimed entry of the renewal schedule. Store the outcome.

        Raises aws.Unavailable.
        """
        stored, renewal = due.stored, due.entry.renewal
        if stored and not accounts.is_account_active(due.entry.account):
            renewal_schedule.conclude(due, outcomes.pause(renewal, self._second), self._second)
            return
        try:
            if stored is None:
                self._clean(due)
                return
            current = self._read_current(due, renewal)
            if current and not renewal.started_at and current.plan.renews_at > self._second:
                renewal_schedule.conclude(due, outcomes.postpone(renewal, current.plan), self._second)
                return
            self._order(due, stored, self._find_replaced(current))
        except AttemptFailed as failed:
            self._report(stored.domain if stored else "", failed)
            failure = outcomes.fail(renewal, failed.failure, self._second, self.random(), failed.reason)
            # `keeps=True` leaves the unfinished order stored for the next attempt
            renewal_schedule.conclude(due, failure, self._second, keeps=True)

    def _report(self, domain: str, failed: AttemptFailed) -> None:
        """Log a failure. If the CA or this service has caused the failure, the logged event raises an alarm."""
        name = "ca_failed" if failed.failure.code in outcomes.OF_THE_SERVICE else "order_failed"
        log.event(name, domain=domain, code=failed.failure.code, reason=failed.reason)

    @property
    def _second(self) -> int:
        return int(self.now())

    def _read_current(self, due: DueRenewal, renewal: Renewal) -> Current | None:
        """Return the latest certificate that was issued for a domain, or None."""
        if not renewal.certificate_id:
            return None
        pem = issued_certificates.read_chain(due.entry.account, renewal.certificate_id)
        certificate = x509.load_pem_x509_certificate(pem.encode()) if pem else None
        if certificate is None:
            return None
        if find_validity(certificate).is_late(self._second):
            log.event("certificate_late", certificate=renewal.certificate_id, account=due.entry.account)
        return Current(certificate, find_plan(self.ca, renewal.certificate_id, certificate, self._second))

    def _find_replaced(self, current: Current | None) -> x509.Certificate | None:
        """Return the certificate that a new order must name as replaced, or None.

        The result is None if the order renews no certificate, or if the CA has no renewal information (RFC 9773).

        An order that names the replaced certificate does not count towards the CA's rate limits.
        """
        is_renewal = current and current.plan.renews_at <= self._second
        return current.certificate if current and is_renewal and self.ca.knows_renewals else None

    def _order(self, due: DueRenewal, stored: ReservedDomain, replaced: x509.Certificate | None) -> None:
        store = self._store(due, stored.domain)
        store.is_renewal = replaced is not None
        # The preflight checks this too, but a stored order continues without a preflight.
        if stored.progress is None or not stored.progress.holds:
            self._give_up(store, store.find())
            raise AttemptFailed(outcomes.domain_unproved(stored.domain), "domain_unproved")
        if ordering.find_current(self.ca, store) is None:
            store.require_room()
            store.method = self.preflight(due.entry.reservation, stored)
        key_type = stored.policy.private_key_type if stored.policy else "ecdsa"
        spec = OrderSpec((stored.domain,), key_type, store.method, replaced)
        until = self.now() + ORDER_TIME
        obtained = ordering.obtain(spec, self.ca, store, until=until, now=self.now, sleep=self.sleep)
        self._record(due, stored.domain, obtained, is_renewal=replaced is not None)

    def _store(self, due: DueRenewal, domain: str) -> StoredOrder:
        return StoredOrder(due, domain, self.txt, self.counts, self.keys, self.now)

    def _record(self, due: DueRenewal, domain: str, obtained: Obtained, *, is_renewal: bool) -> None:
        id, certificate = obtained.order.certificate_id, x509.load_pem_x509_certificate(obtained.chain.pem.encode())
        plan = find_plan(self.ca, id, certificate, self._second)
        renewal = outcomes.succeed(due.entry.renewal, id, plan, find_validity(certificate))
        counted = () if is_renewal else (self.counts.count_issued(domain, self._second),)
        result = issued_certificates.record(due, obtained.order, obtained.chain, renewal, counted)
        log.event("certificate_issued" if result == "recorded" else "certificate_unused", domain=domain, certificate=id)
        if result == "unwanted":
            issued_certificates.give_up(due, obtained.order, obtained.chain.pem)
            raise AttemptFailed(
                outcomes.domain_unproved(domain), "the domain lost its proof or its certificate policy during the order"
            )

    def _clean(self, due: DueRenewal) -> None:
        """Remove the unfinished order and the schedule entry of a domain without a certificate policy."""
        if order := issued_certificates.find_order(due):
            self._give_up(self._store(due, order.domain), order)
        renewal_schedule.conclude(due, due.entry.renewal, self._second)

    def _give_up(self, store: StoredOrder, order: UnfinishedOrder | None) -> None:
        """Remove an order and the answers of its challenges. Raises AttemptFailed.

        If the CA has already issued the certificate, the certificate is revoked later.
        """
        if order is None:
            return
        store.method = order.method
        store.withdraw()
        status = self.ca.status(order.url)
        if status == "processing":  # the order must stay stored: the CA may still issue its certificate
            raise AttemptFailed(outcomes.domain_unproved(order.domain), "the CA is still processing the order")
        if status == "valid":
            issued_certificates.give_up(store.due, order, self.ca.download(order.url))
        else:
            issued_certificates.drop_order(store.due)


def find_plan(ca: AttemptCa, id: str, certificate: x509.Certificate, now: int) -> Plan:
    """Return when to renew a certificate, and when to ask the CA again for a suggested time."""
    try:
        window = ca.renewal_window(certificate)
    except AttemptFailed as failed:  # without the CA's window, the lifetime decides when to renew
        log.event("renewal_information_unreadable", certificate=id, reason=failed.reason)
        window = None
    return renewal_times.plan(id, find_validity(certificate), window, now)


def find_validity(certificate: x509.Certificate) -> Validity:
    """Return the validity of a certificate as Unix seconds."""
    times = (certificate.not_valid_before_utc, certificate.not_valid_after_utc)
    return Validity(*(int(time.timestamp()) for time in times))
