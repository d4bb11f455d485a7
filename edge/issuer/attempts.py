"""A challenge of the CA, and the error that ends an attempt."""

from dataclasses import dataclass, field
from typing import Any

from edge.issuer.rules.outcomes import Failure

CESSATION = 5  # the reason "cessation of operation" of a revocation (RFC 5280, section 5.3.1)


@dataclass(frozen=True)
class Challenge:
    """A challenge of the CA. `value` is the expected answer: the body of an HTTP response, or a TXT record.

    `body` is an object of the ACME library.
    """

    domain: str
    token: str
    value: str
    body: Any = field(default=None, repr=False)


class AttemptFailed(Exception):
    """An attempt failed. `failure` is shown to the owner of the domain, `reason` is for the operator's log."""

    def __init__(self, failure: Failure, reason: str) -> None:
        super().__init__(reason)
        self.failure, self.reason = failure, reason
