"""The preflight: checks whether an order would succeed, by DNS lookups and requests to the domain. Blocks.

The preflight sends no requests to the CA.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from chalicelib.domains import WILDCARD
from chalicelib.model.names.proofs import CheckResult
from chalicelib.model.names.reservations import ReservedDomain
from chalicelib.model.tls import certificate_policies, challenge_records
from chalicelib.model.tls.challenge_records import PendingChallenge
from chalicelib.model.tls.renewals import Method
from edge.issuer.attempts import AttemptFailed
from edge.issuer.checks import http_probe
from edge.issuer.checks.http_probe import Expected
from edge.issuer.rules import outcomes, preflight
from edge.issuer.rules.caa import CaaRecord
from edge.issuer.rules.outcomes import Failure
from edge.issuer.rules.preflight import CaAccount, Finding, HttpAnswer

_MAX_ADDRESSES = 4
_PATIENCE = 5.0  # seconds until all edge hosts have read the change log and answer a new token
_PAUSE = 0.5  # seconds between two requests for a token


class Lookups(Protocol):
    """The DNS lookups that the preflight needs."""

    async def check_alias(self, name: str, target: str) -> CheckResult:
        """Return whether a name is an alias of a target."""

    async def find_caa(self, domain: str) -> frozenset[str] | None:
        """Return the CAA records that apply to a domain as texts. Return None if they are unknown."""


@dataclass(frozen=True)
class DomainChecks:
    """The preflight, which connects only to addresses for which `may_connect` returns true, at `port`."""

    authority: Callable[[], CaAccount]  # returns the account at the CA. Raises AttemptFailed
    dns: Lookups
    find_addresses: Callable[[str], Coroutine[Any, Any, list[str]]]
    may_connect: Callable[[str], bool]
    port: int = 80
    patience: float = _PATIENCE

    def __call__(self, id: str, stored: ReservedDomain) -> Method:
        """Check a reserved domain. Return which challenge to use for it. Raises AttemptFailed, aws.Unavailable."""
        domain, target = stored.domain, certificate_policies.alias_target(id)
        if domain.startswith(WILDCARD) and not target:
            raise AttemptFailed(
                outcomes.internal(),
                f"{domain} has a certificate policy, but certificates for wildcards need ACME_DNS_ZONE",
            )
        alias = asyncio.run(self._find_alias(domain, target)) if stored.is_verified and target else "absent"
        _require(preflight.check_domain(domain, is_verified=stored.is_verified, alias=alias, target=target))
        method = preflight.choose_method(domain, alias)
        self._check_caa(domain, method)
        if method == "http-01":
            answers = self._probe(domain)
            _require(preflight.check_answers(domain, answers, self.port))
        return method

    def check_operator(self, domain: str, target: str) -> None:
        """Check the CAA records of TUNNEL_DOMAIN, and its alias for challenges. Raises AttemptFailed."""
        wildcard = f"{WILDCARD}{domain}"
        alias = asyncio.run(self._find_alias(domain, target))
        _require(preflight.check_domain(wildcard, is_verified=True, alias=alias, target=target))
        for name in (domain, wildcard):
            self._check_caa(name, "dns-01")

    def _check_caa(self, domain: str, method: Method) -> None:
        authority = self.authority()
        records = self._find_caa(domain) if authority.identities else []
        _require(preflight.check_caa(domain, records, authority, method))

    async def _find_alias(self, domain: str, target: str) -> Finding:
        name = f"_acme-challenge.{domain.removeprefix(WILDCARD)}"
        return (await self.dns.check_alias(name, target)).kind

    def _find_caa(self, domain: str) -> list[CaaRecord]:
        """Return the CAA records of a domain. Return no records if they are unknown, because then the CA decides."""
        return find_caa(self.dns, domain) or []

    def _probe(self, domain: str) -> Sequence[HttpAnswer]:
        """Publish a test token, and fetch its answer from each public address of a domain."""
        candidates = asyncio.run(self.find_addresses(domain))
        addresses = [address for address in candidates if self.may_connect(address)][:_MAX_ADDRESSES]
        expected = Expected(domain, secrets.token_urlsafe(32), secrets.token_urlsafe(32))
        challenge_records.put(domain, PendingChallenge(expected.token, expected.answer))
        try:
            return [self._probe_address(address, expected) for address in addresses]
        finally:
            challenge_records.remove(domain)

    def _probe_address(self, address: str, expected: Expected) -> HttpAnswer:
        """Fetch the answer of the test token from an address, repeatedly until the answer is right.

        Stop after `patience` seconds: by then, all edge hosts must have read the token from the change log.
        """
        until = time.monotonic() + self.patience
        while True:
            answer = http_probe.probe(address, self.port, expected)
            if answer.is_ours or time.monotonic() >= until:
                return answer
            time.sleep(_PAUSE)


def find_caa(dns: Lookups, domain: str) -> list[CaaRecord] | None:
    """Return the CAA records that apply to a domain. Return None if they are unknown. Blocks."""
    texts = asyncio.run(dns.find_caa(domain))
    if texts is None:
        return None
    parts = (text.split(" ", 2) for text in texts)
    return [CaaRecord(int(flags), tag, value) for flags, tag, value in parts]


def _require(failure: Failure | None) -> None:
    """Raise AttemptFailed if `failure` is not None."""
    if failure:
        raise AttemptFailed(failure, failure.code)
