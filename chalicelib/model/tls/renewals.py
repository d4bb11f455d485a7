"""The state of the automatic certificate of a domain: when its next attempt is due, and how the last one ended.

Times are Unix seconds, 0 for none. The issuer makes the attempts: nothing here uses the network.
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
    """The state of a domain's certificate. It is stored in the schedule, and copied into the reservation.

    A job runs from `started_at` until a certificate is issued. `is_claimed` is true during an attempt.
    """

    due_at: int
    is_claimed: bool = False
    started_at: int = 0
    tried_at: int = 0
    attempts: int = 0  # failed ones since the job or the last change of the domain
    not_before: int = 0  # a bound of the CA or of the issuer: no order before it
    renews_at: int = 0
    urgent_at: int = 0  # from then on a renewal comes before all others
    error_code: ErrorCode = ""
    msg: str = ""
    reason: str = ""  # for the operator
    certificate_id: str = ""  # the last issued certificate

    @property
    def retries_at(self) -> int:
        """Return when a failed job is tried again, or 0."""
        return self.due_at if self.started_at and self.error_code and not self.is_claimed else 0


def begin(now: int) -> Renewal:
    """Return the state of a domain with a new policy: an attempt is due now."""
    return Renewal(now, started_at=now)


def order_again(renewal: Renewal, now: int) -> Renewal:
    """Return the state after a change that requires another certificate."""
    if renewal.is_claimed:  # the issuer sees the change when its attempt ends
        return renewal
    return _hasten(replace(renewal, started_at=renewal.started_at or now), now)


def lose(renewal: Renewal, now: int) -> Renewal:
    """Return the state of a domain that another account has proved: a new proof requires another certificate."""
    return order_again(replace(renewal, renews_at=0, urgent_at=0, certificate_id=""), now)


def hasten(renewal: Renewal, now: int) -> Renewal:
    """Return the state after a change of the domain: a job that waits is tried at once."""
    if renewal.is_claimed or not renewal.started_at:
        return renewal
    return _hasten(renewal, now)


def _hasten(renewal: Renewal, now: int) -> Renewal:
    """Return the state with an attempt due at once, but not within a minute of the last one."""
    due_at = max(now, renewal.tried_at + _MINUTE, renewal.not_before)
    return replace(renewal, due_at=min(renewal.due_at, due_at), attempts=0)
