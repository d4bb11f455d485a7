"""Answers to challenges over HTTP: only a pending token, and no name that may change its account."""

import pytest

from chalicelib.model.tls.challenge_records import LIFETIME, PendingChallenge
from edge.control import challenge_answers
from edge.control.challenge_answers import UNKNOWN, UNRESERVED, ChallengeResponse, PendingDomains, Standing

PATH, HTTPS = "/.well-known/acme-challenge/token", "https://app.example.com"
PENDING = PendingChallenge("token", "token.print")
ANSWER, REDIRECTED = ChallengeResponse(200, "token.print"), ChallengeResponse(308, location=f"{HTTPS}{PATH}")


@pytest.mark.parametrize(
    ("path", "pending", "standing", "response"),
    [
        (PATH, PENDING, "known", ANSWER),
        (PATH, PENDING, "unknown", ANSWER),  # proved, but nothing listens there yet
        (f"{PATH}?x", PENDING, "known", ANSWER),
        (PATH, None, "known", REDIRECTED),
        (PATH, None, "unreserved", UNRESERVED),
        (PATH, None, "unknown", UNKNOWN),
        (f"{PATH}2", PENDING, "known", ChallengeResponse(308, location=f"{HTTPS}{PATH}2")),
        (f"{PATH}2", PENDING, "unreserved", UNRESERVED),
        ("/.well-known/acme-challenge/", PENDING, "unknown", UNKNOWN),
    ],
)
def test_a_challenge_is_answered(
    path: str, pending: PendingChallenge | None, standing: Standing, response: ChallengeResponse
) -> None:
    assert challenge_answers.respond(path, pending, standing, HTTPS) == response


def test_domains_with_an_order_are_remembered_for_an_hour() -> None:
    domains = PendingDomains()
    domains.add("a.example", 100)
    assert [domains.has("a.example", now) for now in (100, 99 + LIFETIME, 100 + LIFETIME)] == [True, True, False]
    assert not domains.has("b.example", 100)
    domains.add("a.example", 200)
    assert domains.has("a.example", 100 + LIFETIME)


def test_the_oldest_domain_is_forgotten_first() -> None:
    domains = PendingDomains(most=2)
    for now, domain in enumerate(("a", "b", "a", "c")):
        domains.add(domain, now)
    assert [domain for domain in "abc" if domains.has(domain, 10)] == ["a", "c"]
