"""The state of a domain's automatic certificate after an attempt. This file does no I/O.

The state contains the time of the next attempt, and the error to show to the owner of the domain.
"""

from dataclasses import dataclass, replace

from chalicelib.model.tls.renewals import ErrorCode, Renewal
from edge.issuer.rules.renewal_times import Plan, Validity

# codes of failures that the owner of a domain cannot resolve
OF_THE_SERVICE = frozenset({"ca_unreachable", "internal"})
# seconds until the next attempt, after 1, 2 … failures
_INTERVALS = (60, 5 * 60, 15 * 60, 60 * 60, 4 * 60 * 60, 24 * 60 * 60)
_SPREAD = 0.2  # an interval is longer or shorter by a random share, at most this one
_DAILY = _INTERVALS[-1]
_PAUSE = 60 * 60  # seconds until the certificate of a suspended account is due again
_MAX_SENTENCE = 255  # a longer message from the CA is cut to this number of bytes


@dataclass(frozen=True)
class Failure:
    """The reason of a failed attempt. `msg` says what the owner of the domain can do.

    `not_before` is a Unix second before which the CA or a limit admits no order, or 0.
    """

    code: ErrorCode
    msg: str
    not_before: int = 0


def fail(renewal: Renewal, failure: Failure, now: int, random: float, reason: str = "") -> Renewal:
    """Return the state after a failed attempt. The next attempt continues the same order.

    `random` is from 0 to 1, and varies the time of the next attempt. `reason` is for the operator.
    """
    return replace(
        renewal,
        due_at=max(find_retry(renewal.attempts, now, random), failure.not_before),
        is_claimed=False,
        started_at=renewal.started_at or now,
        attempts=renewal.attempts + 1,
        not_before=failure.not_before,
        error_code=failure.code,
        msg=failure.msg,
        reason=_clean(reason) if failure.code in ("ca_unreachable", "internal") else "",
    )


def find_retry(attempts: int, now: int, random: float) -> int:
    """Return the time of the next attempt after a failure that followed `attempts` other failures.

    `random` is from 0 to 1, and varies the time.
    """
    interval = _INTERVALS[min(attempts, len(_INTERVALS) - 1)]
    return now + int(interval * (1 + _SPREAD * (2 * random - 1)))


def hold(renewal: Renewal, failure: Failure, now: int) -> Renewal:
    """Return the state after a limit has postponed an order. A postponed order does not count as an attempt."""
    return replace(
        renewal,
        due_at=failure.not_before,
        started_at=renewal.started_at or now,
        not_before=failure.not_before,
        error_code=failure.code,
        msg=failure.msg,
        reason="",
    )


def reject(renewal: Renewal, now: int) -> Renewal:
    """Return the state after Envoy has rejected a certificate. The issuer then orders another certificate each day."""
    failure = internal()
    return replace(
        renewal,
        due_at=now + _DAILY,
        started_at=now,
        attempts=len(_INTERVALS),
        error_code=failure.code,
        msg=failure.msg,
        reason="Envoy rejects the certificate",
    )


def pause(renewal: Renewal, now: int) -> Renewal:
    """Return the state of a certificate of a suspended account. The certificate is checked again later."""
    return replace(renewal, due_at=now + _PAUSE, is_claimed=False)


def succeed(renewal: Renewal, certificate_id: str, plan: Plan, validity: Validity) -> Renewal:
    """Return the state after a certificate was issued."""
    return Renewal(
        due_at=plan.due_at,
        tried_at=renewal.tried_at,
        renews_at=plan.renews_at,
        urgent_at=validity.urgent_at,
        certificate_id=certificate_id,
    )


def postpone(renewal: Renewal, plan: Plan) -> Renewal:
    """Return the state after an attempt that found no renewal due. `plan` contains the next due times."""
    return replace(renewal, due_at=plan.due_at, renews_at=plan.renews_at, is_claimed=False)


def domain_unproved(domain: str) -> Failure:
    """Return the failure for a domain that the account has not proved."""
    return Failure(
        "domain_unproved",
        f"Prove that you own {domain}: add the DNS record in 'verification' of the reserved domain. The order then "
        "follows.",
    )


def dns_alias_missing(domain: str, target: str) -> Failure:
    """Return the failure for a wildcard without the alias (CNAME) that challenges by DNS need."""
    name = f"_acme-challenge.{domain.removeprefix('*.')}"
    return Failure(
        "dns_alias_missing", f"Add the record {name} CNAME {target}, which a certificate for a wildcard requires."
    )


def caa_forbids(domain: str, identities: tuple[str, ...]) -> Failure:
    """Return the failure for CAA records that do not permit the order."""
    issuer = identities[0] if identities else "the CA"
    return Failure(
        "caa_forbids",
        (
            f"The CAA records of {domain} do not permit {issuer} to issue a certificate with this challenge: add "
            f"{issuer} to them."
        ),
    )


def http_unreachable(domain: str, address: str, port: int, answer: str) -> Failure:
    """Return the failure for an address with a wrong answer in the preflight. `answer` is a status or an error."""
    hint = f"Point {domain} to this service and open port {port}"
    return Failure("http_unreachable", f"{hint}: {address or 'no public address'} {answer}.")


def challenge_failed(sentence: str) -> Failure:
    """Return the failure for a challenge that the CA has rejected."""
    return Failure("challenge_failed", f"Check the DNS records of the domain; the CA says: {_clean(sentence)}")


def rate_limited(limit: str, not_before: int) -> Failure:
    """Return the failure for an order that a limit postpones."""
    return Failure("rate_limited", f"Wait until the time in 'retries_at': {limit}.", not_before)


def ca_unreachable(not_before: int = 0) -> Failure:
    """Return the failure if the CA does not answer."""
    return Failure("ca_unreachable", "The CA does not answer: wait until the order is tried again.", not_before)


def rejected_identifier(domain: str, sentence: str) -> Failure:
    """Return the failure for a domain for which the CA issues no certificates."""
    return Failure("rejected_identifier", f"Use another domain than {domain}; the CA says: {_clean(sentence)}")


def of_problem(code: str, detail: str, domain: str, not_before: int) -> Failure:
    """Return the failure for an error code of ACME (RFC 8555, section 6.7)."""
    match code:
        case "rateLimited":
            return rate_limited("the CA accepts no more orders for now", not_before)
        case "caa":
            return caa_forbids("the domain", ())
        case "rejectedIdentifier" | "unsupportedIdentifier":
            return rejected_identifier(domain, detail)
        case "connection" | "dns" | "dnssec" | "incorrectResponse" | "tls" | "unauthorized":
            return challenge_failed(detail)
        case "serverInternal" | "accountDoesNotExist":
            return ca_unreachable(not_before)
    return internal()


def internal() -> Failure:
    """Return the failure for any other error. The reason is only in the operator's log."""
    return Failure("internal", "Wait, or ask the operator: the order failed, but not because of the domain.")


def _clean(sentence: str) -> str:
    """Return a sentence from the CA as one line of printable characters, cut to 255 bytes."""
    line = " ".join("".join(character if character.isprintable() else " " for character in sentence).split())
    return line.encode()[:_MAX_SENTENCE].decode(errors="ignore")
