"""The error that ends an attempt."""

from edge.issuer.outcomes import Failure


class AttemptFailed(Exception):
    """An attempt failed. `reason` is for the operator's log."""

    def __init__(self, failure: Failure, reason: str) -> None:
        super().__init__(reason)
        self.failure, self.reason = failure, reason
