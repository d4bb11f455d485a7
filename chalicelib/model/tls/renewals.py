"""The state of a domain's automatic certificate: the time of the next attempt, and the result of the last one.

Times are Unix seconds, 0 for none. The issuer makes the attempts. Nothing in this file uses the network.
"""

from dataclasses import dataclass, replace
from typing import Literal

ErrorCode = Literal[
    "",
    "domain_unproved",
    "dns_alias_missing",
    "caa_forbids",
    "http_unreachable",
    "challenge_failed",
    "rate_limited",
    "ca_unreachable",
    "rejected_identifier",
    "internal",
]
Method = Literal["http-01", "dns-01"]

_MINUTE = 60


@dataclass(frozen=True)
class Renewal:
    """The state of a domain's certificate. It is stored in the schedule of renewals, with a copy in the reservation.

    A job is an order with all its attempts. The job begins at `started_at` and ends when a certificate is issued.
    `is_claimed` is true during an attempt.
    """

    due_at: int
    is_claimed: bool = False
    started_at: int = 0
    tried_at: int = 0
    attempts: int = 0  # failed attempts since the start of the job or the last change of the domain
    not_before: int = 0  # the earliest time at which the limits of the CA and the issuer permit an order
    renews_at: int = 0
    urgent_at: int = 0  # the time from which the renewal precedes other renewals, because the certificate expires soon
    error_code: ErrorCode = ""
    msg: str = ""
    reason: str = ""  # why the last attempt failed, in words for the operator
    certificate_id: str = ""  # the id of the last issued certificate

    @property
    def retries_at(self) -> int:
        """Return the time at which a failed job is tried again, or 0."""
        return self.due_at if self.started_at and self.error_code and not self.is_claimed else 0


def begin(now: int) -> Renewal:
    """Return the certificate's state for a domain with a new policy. An attempt is due now."""
    return Renewal(now, started_at=now)


def order_again(renewal: Renewal, now: int) -> Renewal:
    """Return the certificate's state after a change of the reservation that requires another certificate.

    An order is then due.
    """
    if renewal.is_claimed:  # an attempt is running; the issuer applies the change when the attempt ends
        return renewal
    return _hasten(replace(renewal, started_at=renewal.started_at or now), now)


def lose(renewal: Renewal, now: int) -> Renewal:
    """Return the certificate's state after another account has proved the domain.

    The issued certificate is forgotten: if the account proves the domain again, it needs another certificate.
    """
    return order_again(replace(renewal, renews_at=0, urgent_at=0, certificate_id=""), now)


def hasten(renewal: Renewal, now: int) -> Renewal:
    """Return the certificate's state after a change of the reservation that requires no new certificate.

    An order that has failed is tried again soon.
    """
    if renewal.is_claimed or not renewal.started_at:
        return renewal
    return _hasten(renewal, now)


def _hasten(renewal: Renewal, now: int) -> Renewal:
    """Return the certificate's state with the next attempt due as soon as possible.

    The attempt is due at least a minute after the last attempt, and not before `not_before`.
    """
    due_at = max(now, renewal.tried_at + _MINUTE, renewal.not_before)
    return replace(renewal, due_at=min(renewal.due_at, due_at), attempts=0)
