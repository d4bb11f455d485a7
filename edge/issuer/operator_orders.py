"""Orders of the operator's certificate for TUNNEL_DOMAIN and its wildcard, by DNS. Blocks."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from cryptography import x509

from chalicelib.model.names import operator_certificate
from chalicelib.model.names.issued_certificates import UnfinishedOrder
from chalicelib.model.names.operator_certificate import OperatorRenewal
from chalicelib.model.tls.certificate_policies import PolicyKeyType
from edge.issuer import attempt, key_making, ordering
from edge.issuer.attempt import AttemptCa
from edge.issuer.attempts import AttemptFailed, Challenge
from edge.issuer.key_making import KeyWish, MakeKey, SealedKey
from edge.issuer.order_counts import OrderCounts
from edge.issuer.ordering import OrderSpec
from edge.issuer.rules import outcomes
from edge.issuer.stored_order import TxtWriter
from edge.process import log

_ACCOUNT = "edge"  # used as an account's id in the encryption context of the key, and in the counts of orders


@dataclass(frozen=True)
class OperatorOrders:
    """Orders and renews the operator's certificate. `check` is the preflight, which raises AttemptFailed."""

    domain: str
    ca: AttemptCa
    txt: TxtWriter
    check: Callable[[str, str], None]  # called with the domain and the target of its alias for challenges
    counts: OrderCounts = field(default_factory=OrderCounts)
    keys: MakeKey = key_making.make_in_child
    claim: int = 600
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep

    def run(self) -> None:
        """Claim the certificate if it is due, and obtain or renew it. Raises aws.Unavailable."""
        stored, now = operator_certificate.read_renewal(), int(self.now())
        if stored.renewal.due_at > now:
            return
        claimed_until = replace(stored.renewal, due_at=now + self.claim, is_claimed=True, tried_at=now)
        claimed = operator_certificate.write_renewal(stored, claimed_until)
        if claimed is None:
            return
        try:
            self._attempt(claimed)
        except AttemptFailed as failed:
            log.event("ca_failed", domain=self.domain, code=failed.failure.code, reason=failed.reason)
            after = outcomes.fail(claimed.renewal, failed.failure, int(self.now()), 0.5, failed.reason)
            operator_certificate.write_renewal(claimed, after)

    def _attempt(self, claimed: OperatorRenewal) -> None:
        """Obtain a certificate if there is none, or if the current one must be renewed now."""
        pem, now = operator_certificate.read_chain(), int(self.now())
        current = x509.load_pem_x509_certificate(pem.encode()) if pem else None
        if current and attempt.find_validity(current).is_late(now):
            log.event("certificate_late", certificate=operator_certificate.ID, account=_ACCOUNT)
        plan = attempt.find_plan(self.ca, operator_certificate.ID, current, now) if current else None
        if plan and plan.renews_at > now:
            operator_certificate.write_renewal(claimed, outcomes.postpone(claimed.renewal, plan))
            return
        replaced = current if current and self.ca.knows_renewals else None
        store = _OperatorStore(self, is_renewal=replaced is not None)
        if ordering.find_current(self.ca, store) is None:
            self.check(self.domain, operator_certificate.alias_target())
        spec = OrderSpec((self.domain, f"*.{self.domain}"), "ecdsa", "dns-01", replaced)
        until = self.now() + attempt.ORDER_TIME
        obtained = ordering.obtain(spec, self.ca, store, until=until, now=self.now, sleep=self.sleep)
        certificate = x509.load_pem_x509_certificate(obtained.chain.pem.encode())
        plan = attempt.find_plan(self.ca, operator_certificate.ID, certificate, int(self.now()))
        validity = attempt.find_validity(certificate)
        renewal = outcomes.succeed(claimed.renewal, operator_certificate.ID, plan, validity)
        if operator_certificate.record(claimed, obtained.order, obtained.chain.pem, renewal):
            log.event("certificate_issued", domain=self.domain, certificate=operator_certificate.ID)


@dataclass
class _OperatorStore:
    """Implements ordering.OrderStore."""

    orders: OperatorOrders
    is_renewal: bool

    def find(self) -> UnfinishedOrder | None:
        return operator_certificate.find_order()

    def put(self, order: UnfinishedOrder) -> None:
        operator_certificate.put_order(order)

    def drop(self) -> None:
        self.forget()

    def forget(self) -> None:
        operator_certificate.drop_order()

    def admit(self) -> None:
        """Count the order towards the limits on orders. Raises AttemptFailed if a limit forbids the order."""
        self.orders.counts.count(_ACCOUNT, self.orders.domain, int(self.orders.now()), replaces=self.is_renewal)

    def make_key(self, names: tuple[str, ...], key_type: PolicyKeyType) -> tuple[str, SealedKey]:
        id = operator_certificate.ID
        return id, self.orders.keys(KeyWish(_ACCOUNT, id, names, key_type))

    def publish(self, challenge: Challenge) -> None:
        self.orders.txt.add(operator_certificate.alias_target(), challenge.value)

    def withdraw(self) -> None:
        self.orders.txt.remove(operator_certificate.alias_target())
