"""Looks up the DNS records of domains, with a deadline.

The records are the TXT and CNAME records that prove the ownership of a domain, and its CAA records.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any

import dns.exception
import dns.name
from dns.rdatatype import CAA, CNAME, TXT, RdataType

from chalicelib.domains import WILDCARD
from chalicelib.model.names import proofs
from chalicelib.model.names.proofs import CheckResult, Proof
from edge.proofs import asking
from edge.proofs.agreement import Answer, Records, describe_disagreement, find_agreement
from edge.proofs.servers import Source, Unreachable

DEADLINE = 3.0  # the most seconds for looking up the records that prove a domain
_CAA_DEADLINE = 10.0  # the most seconds for looking up the CAA records of a domain and its parent domains
_MAX_ALIASES = 8


class _Disagreement(Exception):
    """The name servers of a domain return different records, or unusable answers. The message is a sentence."""


class Resolver:
    """Looks up records of domains at the name servers that a Source returns."""

    def __init__(self, source: Source) -> None:
        self._source = source

    async def check_proof(self, domain: str, proof: Proof) -> CheckResult:
        """Check a domain for a TXT or CNAME record that proves its ownership.

        The TXT record must have the value `proof.value`, or the CNAME record must point to `proof.cname_target`.
        """
        results = await asyncio.gather(
            _with_deadline(domain, self._text(domain, proof.value)),
            _with_deadline(domain, self._alias(domain, proof.cname_target)),
        )
        decisive = [result for kind in ("present", "unknown") for result in results if result.kind == kind]
        if decisive:
            return decisive[0]
        return CheckResult("absent", " ".join(result.error for result in results if result.error))

    async def check_alias(self, name: str, target: str) -> CheckResult:
        """Return whether the CNAME records of a name point to a target, directly or through other names."""
        return await _with_deadline(name, self._alias(name, target))

    async def find_caa(self, domain: str) -> frozenset[str] | None:
        """Return the CAA records that apply to a domain.

        Each is a text of its flags, tag and value. Return None if the name servers do not agree or answer in time.
        """
        try:
            async with asyncio.timeout(_CAA_DEADLINE):
                return await self._caa(domain)
        except (TimeoutError, Unreachable, _Disagreement):
            return None

    async def find_without(self, name: str, value: str) -> list[str]:
        """Return the addresses of the name servers that do not return a TXT value.

        Servers that do not answer are included. Raises Unreachable.
        """
        key = dns.name.from_text(name)
        panel = await self._source.panel(key)
        answers = await asyncio.gather(*(asking.ask(server, key, TXT, panel.role) for server in panel.servers))
        pairs = zip(panel.servers, answers, strict=True)
        return [
            server.address for server, answer in pairs if not isinstance(answer, Records) or value not in answer.values
        ]

    async def _text(self, domain: str, value: str) -> CheckResult:
        name = proofs.record_name(domain)
        records = await self._find_agreement(name, TXT, lambda records: value in records.values)
        if value in records.values:
            return CheckResult("present")
        if records.values:
            return CheckResult(
                "absent", f"The TXT record {name} does not have the value of this reservation: change the record."
            )
        return CheckResult("absent", f"There is no TXT record {name}.")

    async def _alias(self, domain: str, target: str) -> CheckResult:
        """Return whether the CNAME records of a domain point to a target.

        For a wildcard domain `*.d`, the lookup begins with the CNAME record of the literal name `*.d`.
        """
        name, passed = domain, {domain}
        for _ in range(_MAX_ALIASES):
            records = await self._find_agreement(name, CNAME, lambda records: records)
            if target in records.values:
                return CheckResult("present")
            if not records.values:
                return CheckResult(
                    "absent",
                    ""
                    if name == domain
                    else f"{domain} has a CNAME record, but it does not lead to {target}: change the record.",
                )
            name = min(records.values)
            if name in passed:
                return CheckResult("absent", f"The CNAME records of {domain} form a loop.")
            passed.add(name)
        return CheckResult("absent", f"The CNAME records of {domain} form a chain of more than {_MAX_ALIASES} names.")

    async def _caa(self, domain: str) -> frozenset[str]:
        """Return the CAA records of a domain, or of the closest parent domain with CAA records.

        CNAME records are followed (RFC 8659, section 3).
        """
        labels = domain.removeprefix(WILDCARD).split(".")
        for at in range(len(labels)):
            name, passed = ".".join(labels[at:]), set[str]()
            while name not in passed and len(passed) <= _MAX_ALIASES:
                if records := (await self._find_agreement(name, CAA, lambda records: records)).values:
                    return records
                passed.add(name)
                name = min((await self._find_agreement(name, CNAME, lambda records: records)).values, default=name)
        return frozenset()

    async def _find_agreement(self, text: str, kind: RdataType, key: Callable[[Records], Hashable]) -> Records:
        """Return the records of a name on which its name servers agree. Raises Unreachable, _Undecided.

        Two servers agree if the function `key` returns the same value for their records.
        """
        try:
            name = dns.name.from_text(text)
        except dns.exception.DNSException:  # the name is too long, or comes from a malformed CNAME record
            return Records(frozenset())
        panel = await self._source.panel(name)
        tasks = [asyncio.create_task(asking.ask(server, name, kind, panel.role)) for server in panel.servers]
        answers: list[Answer] = []
        try:
            for task in asyncio.as_completed(tasks):
                answers.append(await task)
                if records := find_agreement(answers, key, server_count=len(tasks), quorum=panel.quorum):
                    return records
        finally:
            for running in tasks:
                running.cancel()
        raise _Disagreement(describe_disagreement(answers, text))


async def _with_deadline(domain: str, check: Coroutine[Any, Any, CheckResult]) -> CheckResult:
    try:
        async with asyncio.timeout(DEADLINE):
            return await check
    except TimeoutError:
        return CheckResult("unknown", f"The name servers of {domain} did not answer within three seconds.")
    except (Unreachable, _Disagreement) as error:
        return CheckResult("unknown", str(error))
