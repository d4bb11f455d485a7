"""The proof that an account owns a domain: checks and their results. Times are Unix seconds.

The live edge makes the checks. Nothing in this file uses DNS.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from chalicelib.domains import WILDCARD

T = TypeVar("T")
ProofStatus = Literal["pending", "verified", "lapsing", "lapsed"]
ProofEvent = Literal["", "verified", "lapsing", "lapsed"]

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_GRACE = 7 * _DAY  # seconds for which a proof stays valid while its DNS record is missing
_NO_ANSWER = 2 * _DAY  # seconds without an answer of the name servers, after which a DNS record counts as missing
_LOST_ERROR = "The DNS record that proved the domain is gone, and another account has proved the domain."
_PROVED_ELSEWHERE = (
    "Another account has proved this domain, and the DNS record of that account still exists: remove that record first."
)
_UNKNOWN_ELSEWHERE = (
    "Another account has proved this domain, and the DNS record of that account cannot be checked at the moment: {}"
)


@dataclass(frozen=True)
class Proof:
    """The state of the proof of a reserved domain. `error` is a sentence about the latest check, or "".

    Either a TXT record with `value`, or an alias (CNAME) of the domain to `cname_target`, proves the domain. Both texts
    are unique to this reservation, so a forgotten DNS record does not prove the domain for a later reservation.
    """

    value: str
    cname_target: str
    status: ProofStatus
    since: int  # the Unix second since which the proof has this `status`
    next_at: int  # the Unix second of the next DNS check
    seen_at: int = 0  # the Unix second at which a check last found the DNS record
    checked_at: int = 0  # the Unix second of the last DNS check
    wished_at: int = 0  # the Unix second at which the account last requested a DNS check
    error: str = ""

    @property
    def holds(self) -> bool:
        """Return whether the proof is valid, so that the account owns the domain."""
        return self.status in ("verified", "lapsing")


@dataclass(frozen=True)
class CheckResult:
    """The result of a lookup of the DNS record that proves a domain. `error` is the reason if it was not found."""

    kind: Literal["present", "absent", "unknown"]
    error: str = ""


@dataclass(frozen=True)
class ProofChange:
    """A proof after a check. `event` is the action of the audit event about the change, "" if there is no event."""

    proof: Proof
    event: ProofEvent = ""


class TooSoon(Exception):
    """A check was requested less than a minute ago.

    `wait` is the number of seconds until the next request is accepted.
    """

    def __init__(self, wait: int) -> None:
        super().__init__(wait)
        self.wait = wait


def begin(now: int, *, value: str, cname_target: str) -> Proof:
    """Return the proof of a new reservation, with a check due now."""
    return Proof(value, cname_target, "pending", since=now, next_at=now)


def record_name(domain: str) -> str:
    """Return the name of the TXT record of a domain.

    The TXT records of `*.d` and d have the same name, with different values.
    """
    return f"_tunnel-verification.{domain.removeprefix(WILDCARD)}"


def request_check(proof: Proof, now: int) -> Proof:
    """Return the proof with a check due now. Raises TooSoon."""
    if (wait := proof.wished_at + _MINUTE - now) > 0:
        raise TooSoon(wait)
    return replace(proof, wished_at=now, next_at=min(proof.next_at, now))


def apply_check(proof: Proof, result: CheckResult, now: int) -> ProofChange:
    """Return the proof after a check of a domain that no other account has proved."""
    checked = replace(proof, checked_at=now, error=result.error)
    if result.kind == "present":
        return _verify(checked, now)
    match proof.status:
        case "verified" if result.kind == "absent" or now - proof.seen_at >= _NO_ANSWER:
            return _change_status(checked, "lapsing", now, next_at=now + _DAY)
        case "verified":
            return ProofChange(replace(checked, next_at=now + _HOUR))
        case "lapsing" if now >= proof.since + _GRACE:
            return _change_status(checked, "lapsed", now, next_at=now + _MINUTE)
        case "lapsing":
            return ProofChange(replace(checked, next_at=min(now + _DAY, proof.since + _GRACE)))
    return ProofChange(replace(checked, next_at=now + _seconds_until_check(proof, now)))


def apply_contest(
    challenger: Proof, owner: Proof, result: CheckResult, now: int
) -> tuple[ProofChange, ProofChange | None]:
    """Return the proofs of two accounts after a check of a domain that both claim.

    The owner has already proved the domain. The challenger is another account, and a check has just found its DNS
    record. `result` is the lookup of the owner's DNS record at the same time. The challenger gets the domain if the
    owner's record is absent. The first returned proof is the challenger's. The second is the owner's, or None if the
    owner keeps the domain.
    """
    checked = replace(challenger, checked_at=now, error="")
    if result.kind == "absent":
        lost = replace(owner, checked_at=now, error=_LOST_ERROR)
        return _verify(checked, now), _change_status(lost, "lapsed", now, next_at=now + _MINUTE)
    error = _PROVED_ELSEWHERE if result.kind == "present" else _UNKNOWN_ELSEWHERE.format(result.error)
    return ProofChange(replace(checked, error=error, next_at=now + _seconds_until_check(challenger, now))), None


def list_proving_domains(host: str) -> tuple[str, ...]:
    """Return the domains that prove a host if they are reserved, in order of precedence.

    A domain without a wildcard proves only itself. `*.d` proves all names below d, including `*.b.d`.
    """
    labels = host.removeprefix(WILDCARD).split(".")
    first = 0 if host.startswith(WILDCARD) else 1
    below = [WILDCARD + ".".join(labels[index:]) for index in range(first, len(labels) - 1)]
    return tuple(below) if first == 0 else (host, *below)


def find_proving(host: str, owners: Mapping[str, T]) -> T | None:
    """Return the owner of the most specific domain that proves a host, or None."""
    return next((owners[name] for name in list_proving_domains(host) if name in owners), None)


def _verify(checked: Proof, now: int) -> ProofChange:
    seen = replace(checked, seen_at=now, next_at=now + _DAY, error="")
    return ProofChange(seen) if seen.status == "verified" else _change_status(seen, "verified", now, next_at=now + _DAY)


def _change_status(
    proof: Proof, status: Literal["verified", "lapsing", "lapsed"], now: int, *, next_at: int
) -> ProofChange:
    return ProofChange(replace(proof, status=status, since=now, next_at=next_at), status)


def _seconds_until_check(proof: Proof, now: int) -> int:
    """Return the seconds until the next check of an unproved domain.

    The result is half of the time since the domain became unproved, at least a minute and at most a day.
    """
    return max(_MINUTE, min((now - proof.since) // 2, _DAY))
