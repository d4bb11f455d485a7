"""Decides which challenge an order uses, or why the order would fail. This file does no I/O.

The results of the preflight decide: DNS lookups, and requests to the domain.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from chalicelib.domains import WILDCARD
from chalicelib.model.tls.renewals import Method
from edge.issuer.rules import caa, outcomes
from edge.issuer.rules.caa import CaaRecord, Wish
from edge.issuer.rules.outcomes import Failure

Finding = Literal["present", "absent", "unknown"]


@dataclass(frozen=True)
class HttpAnswer:
    """The answer of an address in the preflight: a status, or a phrase for an error.

    `is_ours` is true if an edge host of this service sent the expected answer.
    """

    address: str
    answer: str
    is_ours: bool


@dataclass(frozen=True)
class CaAccount:
    """The CA's names in CAA records (`identities`), and the URL of the operator's account at the CA."""

    identities: tuple[str, ...]
    account_url: str


def choose_method(domain: str, alias: Finding) -> Method:
    """Return which challenge a domain uses: DNS for wildcards and for names with an alias, otherwise HTTP."""
    return "dns-01" if domain.startswith(WILDCARD) or alias == "present" else "http-01"


def check_domain(domain: str, *, is_verified: bool, alias: Finding, target: str) -> Failure | None:
    """Return why a certificate for a domain cannot be ordered, or None.

    Checks the proof and the alias of the domain.
    """
    if not is_verified:
        return outcomes.domain_unproved(domain)
    if not domain.startswith(WILDCARD) or alias == "present":
        return None
    return outcomes.dns_alias_missing(domain, target)


def check_caa(domain: str, records: Sequence[CaaRecord], authority: CaAccount, method: Method) -> Failure | None:
    """Return why CAA records forbid an order, or None."""
    wish = Wish(authority.identities, authority.account_url, method, domain.startswith(WILDCARD))
    return None if caa.admits(records, wish) else outcomes.caa_forbids(domain, authority.identities)


def check_answers(domain: str, answers: Sequence[HttpAnswer], port: int) -> Failure | None:
    """Return why the CA may not find the answer of a challenge, or None. Every public address must answer."""
    if not answers:
        return outcomes.http_unreachable(domain, "", port, "was found")
    wrong = next((answer for answer in answers if not answer.is_ours), None)
    return outcomes.http_unreachable(domain, wrong.address, port, wrong.answer) if wrong else None
