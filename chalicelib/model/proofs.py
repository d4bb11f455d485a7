"""Proof that a domain is an account's own: which record proves it, when it is looked at, and what a look changes.

Times are Unix seconds. The looks themselves are the live edge's: nothing here speaks DNS.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from chalicelib.domains import WILDCARD

T = TypeVar("T")
ProofStatus = Literal["pending", "verified", "lapsing", "lapsed"]
ProofEvent = Literal["", "verified", "lapsing", "lapsed"]

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_GRACE = 7 * _DAY  # in which a record that is gone may come back
_NO_ANSWER = 2 * _DAY  # without an answer of name servers, until that counts as a record that is gone
_LOST_ERROR = "The record is gone, and another account has proved the domain."
_PROVED_ELSEWHERE = "Another account has proved this domain, and its record is still there: that must be removed first."
_UNKNOWN_ELSEWHERE = (
    "Another account has proved this domain, and whether its record is still there cannot be seen just now: {}"
)


@dataclass(frozen=True)
class Proof:
    """The progress of the proof of a reserved domain. `error` is "" or a sentence about the last look.

    `value` and `cname_target` hold a label that no other reservation ever has, or a record that is left behind would
    prove the domain for the next one.
    """

    value: str
    cname_target: str
    status: ProofStatus
    since: int  # when that began
    next_at: int  # when to look
    seen_at: int = 0  # when the record was last there
    checked_at: int = 0  # when it was last looked for
    wished_at: int = 0  # when its owner last asked for a look
    error: str = ""

    @property
    def holds(self) -> bool:
        """Tell whether the domain is its account's."""
        return self.status in ("verified", "lapsing")


@dataclass(frozen=True)
class CheckResult:
    """The outcome of a look: the record is there, it is not, or neither is sure; then why, as a sentence."""

    kind: Literal["present", "absent", "unknown"]
    error: str = ""


@dataclass(frozen=True)
class ProofChange:
    """The proof after a look, and the event that tells of its change, "" where there is none."""

    proof: Proof
    event: ProofEvent = ""


class TooSoon(Exception):
    """A look was asked for less than a minute ago; `wait` is the seconds until the next may be."""

    def __init__(self, wait: int) -> None:
        super().__init__(wait)
        self.wait = wait


def begin(now: int, *, value: str, cname_target: str) -> Proof:
    """Return the proof of a new reservation, to be looked for at once."""
    return Proof(value, cname_target, "pending", since=now, next_at=now)


def record_name(domain: str) -> str:
    """Return where the TXT record of a domain stands; for `*.d` it is that of d, which has a value of its own."""
    return f"_tunnel-verification.{domain.removeprefix(WILDCARD)}"


def request_check(proof: Proof, now: int) -> Proof:
    """Return the proof with a look due now. Raises TooSoon."""
    if (wait := proof.wished_at + _MINUTE - now) > 0:
        raise TooSoon(wait)
    return replace(proof, wished_at=now, next_at=min(proof.next_at, now))


def apply_check(proof: Proof, found: CheckResult, now: int) -> ProofChange:
    """Return the step after a look at a domain that is nobody's, or this reservation's own."""
    looked = replace(proof, checked_at=now, error=found.error)
    if found.kind == "present":
        return _verify(looked, now)
    match proof.status:
        case "verified" if found.kind == "absent" or now - proof.seen_at >= _NO_ANSWER:
            return _change_status(looked, "lapsing", now, next_at=now + _DAY)
        case "verified":
            return ProofChange(replace(looked, next_at=now + _HOUR))
        case "lapsing" if now >= proof.since + _GRACE:
            return _change_status(looked, "lapsed", now, next_at=now + _MINUTE)
        case "lapsing":
            return ProofChange(replace(looked, next_at=min(now + _DAY, proof.since + _GRACE)))
    return ProofChange(replace(looked, next_at=now + _seconds_until_check(proof, now)))


def apply_contest(
    challenger: Proof, holder: Proof, found: CheckResult, now: int
) -> tuple[ProofChange, ProofChange | None]:
    """Return the next step of a challenger whose record is there, and of the holder if it loses the domain.

    `found` is what a look at the holder's record found in the same moment.
    """
    looked = replace(challenger, checked_at=now, error="")
    if found.kind == "absent":
        lost = replace(holder, checked_at=now, error=_LOST_ERROR)
        return _verify(looked, now), _change_status(lost, "lapsed", now, next_at=now + _MINUTE)
    error = _PROVED_ELSEWHERE if found.kind == "present" else _UNKNOWN_ELSEWHERE.format(found.error)
    return ProofChange(replace(looked, error=error, next_at=now + _seconds_until_check(challenger, now))), None


def list_proving_domains(host: str) -> tuple[str, ...]:
    """Return the reserved domains of which each proves a host, the one that wins first.

    A domain proves itself alone, `*.d` proves all names below d, and so `*.b.d` too.
    """
    labels = host.removeprefix(WILDCARD).split(".")
    first = 0 if host.startswith(WILDCARD) else 1
    below = [WILDCARD + ".".join(labels[place:]) for place in range(first, len(labels) - 1)]
    return tuple(below) if first == 0 else (host, *below)


def find_proving(host: str, holders: Mapping[str, T]) -> T | None:
    """Return the holder of the longest proved domain that proves a host, given the holders of all; None without one."""
    return next((holders[name] for name in list_proving_domains(host) if name in holders), None)


def _verify(looked: Proof, now: int) -> ProofChange:
    seen = replace(looked, seen_at=now, next_at=now + _DAY, error="")
    return ProofChange(seen) if seen.status == "verified" else _change_status(seen, "verified", now, next_at=now + _DAY)


def _change_status(
    proof: Proof, status: Literal["verified", "lapsing", "lapsed"], now: int, *, next_at: int
) -> ProofChange:
    return ProofChange(replace(proof, status=status, since=now, next_at=next_at), status)


def _seconds_until_check(proof: Proof, now: int) -> int:
    """Return seconds until an unproved domain is looked at again: half as long as it is unproved, a minute to a day."""
    return max(_MINUTE, min((now - proof.since) // 2, _DAY))
