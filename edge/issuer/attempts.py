"""A challenge of an attempt, and the error that ends an attempt."""

from dataclasses import dataclass, field
from typing import Any

from edge.issuer.rules.outcomes import Failure

CESSATION = 5  # the reason "cessation of operation" of a revocation (RFC 5280, section 5.3.1)


@dataclass(frozen=True)
class Challenge:
    """A challenge of the CA. `value` answers it: the body over HTTP, or the TXT record.

    `body` is an object of the ACME library.
    """

    domain: str
    token: str
    value: str
    body: Any = field(default=None, repr=False)


class AttemptFailed(Exception):
    """An attempt failed. `reason` is for the operator's log."""

    def __init__(self, failure: Failure, reason: str) -> None:
        super().__init__(reason)
        self.failure, self.reason = failure, reason
