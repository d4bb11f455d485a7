"""Decides the responses to HTTP-01 challenges of a CA (RFC 8555, section 8.3). This file does no I/O."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal

from chalicelib.model.serving import pages
from chalicelib.model.tls.challenge_records import LIFETIME, PendingChallenge

# "known": an account has the requested host. "unreserved": an account has the host, but has not reserved it.
# "unknown": no account has the host, or the budget for reads is used up.
Standing = Literal["known", "unreserved", "unknown"]

_MOST = 10_000  # the most remembered domains. One more domain replaces the oldest
_PATH = "/.well-known/acme-challenge/"


@dataclass(frozen=True)
class ChallengeResponse:
    """The response to a challenge. `location` is the address of a redirect, or ""."""

    status: Literal[200, 308, 404, 503]
    body: str = ""
    location: str = ""


UNKNOWN, UNRESERVED = ChallengeResponse(404, pages.NO_TUNNEL), ChallengeResponse(404, pages.NO_CHALLENGE)
UNAVAILABLE = ChallengeResponse(503)  # the response if the store cannot be read


class PendingDomains:
    """Remembers the domains of new ACME orders, which the change log reports.

    At most 10,000 domains are remembered, each for an hour.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._ends: OrderedDict[str, float] = OrderedDict()  # expiry times by domain, the earliest first

    def add(self, domain: str, now: float) -> None:
        """Remember a domain for an hour. Forget the oldest one if there are too many."""
        self._ends[domain] = now + LIFETIME
        self._ends.move_to_end(domain)
        if len(self._ends) > self._most:
            self._ends.popitem(last=False)

    def has(self, domain: str, now: float) -> bool:
        """Return whether an ACME order for a domain can be pending."""
        return self._ends.get(domain, 0) > now


def respond(path: str, pending: PendingChallenge | None, standing: Standing, https: str) -> ChallengeResponse:
    """Return the response to a request. `https` is the requested host's https URL without a path.

    A request for the token of a pending challenge gets the answer of the challenge. Other requests are redirected to
    `https`, but get 404 if the host is unknown or not reserved: another account could have an unreserved name a minute
    later.
    """
    token = path.partition("?")[0].removeprefix(_PATH)
    if pending and token == pending.token:
        return ChallengeResponse(200, pending.answer)
    if standing == "known":
        return ChallengeResponse(308, location=f"{https}{path}")
    return UNRESERVED if standing == "unreserved" else UNKNOWN
