"""Outcomes of attempts: the intervals of retries, Retry-After, and the sentences that owners read."""

from dataclasses import replace

import pytest

from chalicelib.model.tls.renewals import Renewal
from edge.issuer.rules import outcomes
from edge.issuer.rules.outcomes import Failure
from edge.issuer.rules.renewal_times import Plan, Validity

NOW = 1_800_000_000
FAILURE = Failure("ca_unreachable", "Wait.")
CLAIMED_RENEWAL = Renewal(NOW + 600, is_claimed=True, started_at=NOW - 5, tried_at=NOW - 5)


@pytest.mark.parametrize(
    ("attempts", "interval"), [(0, 60), (1, 300), (2, 900), (3, 3600), (4, 14400), (5, 86400), (6, 86400), (99, 86400)]
)
@pytest.mark.parametrize(("random", "share"), [(0.0, 0.8), (0.5, 1.0), (1.0, 1.2)])
def test_failures_are_retried_less_and_less_often(attempts: int, interval: int, random: float, share: float) -> None:
    after = outcomes.fail(replace(CLAIMED_RENEWAL, attempts=attempts), FAILURE, NOW, random)
    assert after == replace(
        CLAIMED_RENEWAL,
        due_at=NOW + int(interval * share),
        is_claimed=False,
        attempts=attempts + 1,
        error_code="ca_unreachable",
        msg="Wait.",
    )
    assert after.retries_at == after.due_at


@pytest.mark.parametrize(("not_before", "due_at"), [(NOW + 30, NOW + 60), (NOW + 7200, NOW + 7200)])
def test_a_later_retry_after_is_obeyed(not_before: int, due_at: int) -> None:
    after = outcomes.fail(
        CLAIMED_RENEWAL, outcomes.rate_limited("the CA accepts no more orders for now", not_before), NOW, 0.5
    )
    assert (after.due_at, after.not_before, after.error_code) == (due_at, not_before, "rate_limited")


def test_a_renewal_that_fails_starts_a_job() -> None:
    renewing = Renewal(NOW, is_claimed=True, renews_at=NOW, certificate_id="cert_1")
    after = outcomes.fail(renewing, FAILURE, NOW, 0.5)
    assert (after.started_at, after.renews_at, after.certificate_id) == (NOW, NOW, "cert_1")


def test_an_issue_ends_the_job() -> None:
    failed_renewal = outcomes.fail(CLAIMED_RENEWAL, FAILURE, NOW, 0.5)
    after = outcomes.succeed(failed_renewal, "cert_2", Plan(NOW + 900, NOW + 100), Validity(NOW, NOW + 1200))
    expected = Renewal(NOW + 100, tried_at=NOW - 5, renews_at=NOW + 900, urgent_at=NOW + 1000, certificate_id="cert_2")
    assert after == expected
    assert outcomes.postpone(replace(after, is_claimed=True), Plan(NOW + 800, 0)) == replace(
        after, due_at=NOW + 800, renews_at=NOW + 800
    )


@pytest.mark.parametrize(
    ("failure", "code", "msg"),
    [
        (
            outcomes.domain_unproved("a.example"),
            "domain_unproved",
            (
                "Prove that you own a.example: add the DNS record in 'verification' of the reserved domain. The order "
                "then follows."
            ),
        ),
        (
            outcomes.dns_alias_missing("*.a.example", "x.acme.example"),
            "dns_alias_missing",
            (
                "Add the record _acme-challenge.a.example CNAME x.acme.example, which a certificate for a wildcard "
                "requires."
            ),
        ),
        (
            outcomes.caa_forbids("a.example", ("ca.example",)),
            "caa_forbids",
            (
                "The CAA records of a.example do not permit ca.example to issue a certificate with this challenge: "
                "add ca.example to them."
            ),
        ),
        (
            outcomes.http_unreachable("a.example", "192.0.2.1", 80, "answered 502"),
            "http_unreachable",
            "Point a.example to this service and open port 80: 192.0.2.1 answered 502.",
        ),
        (
            outcomes.challenge_failed("Invalid\r\n\x1b[31m response \u202e for a.example"),
            "challenge_failed",
            "Check the DNS records of the domain; the CA says: Invalid [31m response for a.example",
        ),
        (
            outcomes.rate_limited("the service has reached its limit of orders", 5),
            "rate_limited",
            "Wait until the time in 'retries_at': the service has reached its limit of orders.",
        ),
        (
            outcomes.ca_unreachable(),
            "ca_unreachable",
            "The CA does not answer: wait until the order is tried again.",
        ),
        (
            outcomes.rejected_identifier("a.example", "Policy forbids it"),
            "rejected_identifier",
            "Use another domain than a.example; the CA says: Policy forbids it",
        ),
        (
            outcomes.internal(),
            "internal",
            "Wait, or ask the operator: the order failed, but not because of the domain.",
        ),
    ],
)
def test_each_failure_says_what_to_do_first(failure: Failure, code: str, msg: str) -> None:
    assert (failure.code, failure.msg) == (code, msg)


def test_a_sentence_of_the_ca_has_at_most_255_bytes() -> None:
    sentence = outcomes.challenge_failed("ü" * 300).msg.rpartition(": ")[2]
    assert sentence == "ü" * 127
