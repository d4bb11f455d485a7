"""The unfinished order of one reserved domain, stored in the table, and the answers of its challenges. Blocks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from chalicelib import ids
from chalicelib.model.names import issued_certificates
from chalicelib.model.names.issued_certificates import UnfinishedOrder
from chalicelib.model.names.renewal_schedule import DueRenewal
from chalicelib.model.tls import certificate_policies, challenge_records
from chalicelib.model.tls.certificate_policies import PolicyKeyType
from chalicelib.model.tls.challenge_records import PendingChallenge
from chalicelib.model.tls.renewals import Method
from edge.issuer.attempts import AttemptFailed, Challenge
from edge.issuer.key_making import KeyWish, MakeKey, SealedKey
from edge.issuer.order_counts import OrderCounts
from edge.issuer.rules import outcomes
from edge.issuer.rules.order_bounds import Limit


class TxtWriter(Protocol):
    """Writes TXT records of challenges at the target of an alias. The methods raise AttemptFailed."""

    def add(self, name: str, value: str) -> None:
        """Add a TXT record, and wait until all name servers have it."""

    def remove(self, name: str) -> None:
        """Remove the TXT records of a name, if there are any."""


@dataclass
class StoredOrder:
    """Implements ordering.OrderStore. `is_renewal` is true if the order names the certificate that it replaces."""

    due: DueRenewal
    domain: str
    txt: TxtWriter | None
    counts: OrderCounts
    keys: MakeKey
    now: Callable[[], float]
    is_renewal: bool = False
    method: Method = "http-01"

    def find(self) -> UnfinishedOrder | None:
        if order := issued_certificates.find_order(self.due):
            self.method = order.method
        return order

    def put(self, order: UnfinishedOrder) -> None:
        issued_certificates.put_order(self.due, order)

    def drop(self) -> None:
        self.counts.count_failed(self.domain, int(self.now()))
        self.forget()

    def forget(self) -> None:
        issued_certificates.drop_order(self.due)

    def require_room(self) -> None:
        """Raise AttemptFailed if a limit on orders is reached."""
        account, now = self.due.entry.account, int(self.now())
        if limit := self.counts.find_limit(account, self.domain, now, replaces=self.is_renewal):
            raise _build_failure(limit)

    def admit(self) -> None:
        self.counts.count(self.due.entry.account, self.domain, int(self.now()), replaces=self.is_renewal)

    def make_key(self, names: tuple[str, ...], key_type: PolicyKeyType) -> tuple[str, SealedKey]:
        id = ids.new("cert")
        return id, self.keys(KeyWish(self.due.entry.account, id, names, key_type))

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


def _build_failure(limit: Limit) -> AttemptFailed:
    return AttemptFailed(outcomes.rate_limited(limit.sentence, limit.not_before), limit.sentence)
