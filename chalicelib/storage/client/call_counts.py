"""Counts of calls to AWS in this process, for metrics. Concurrent requests share them."""

from collections import Counter

KMS_CALLS, KMS_ERRORS = "KmsCalls", "KmsErrors"
CONFLICTS, THROTTLES = "StoreConflicts", "StoreThrottles"

# For each metric: the number of events since the last call of `take`.
COUNTS: Counter[str] = Counter()
THROTTLE_CODES = frozenset(("ProvisionedThroughputExceededException", "RequestLimitExceeded", "ThrottlingException"))


def note(service: str, code: str = "") -> None:
    """Count a call of KMS, or a throttled call of another service. `code` is the error code of a failed call."""
    if service == "kms":
        COUNTS[KMS_ERRORS if code else KMS_CALLS] += 1
    elif code in THROTTLE_CODES:
        COUNTS[THROTTLES] += 1


def conflict() -> bool:
    """Count a transaction that conflicted with another one. Return False, so that the caller tries again."""
    COUNTS[CONFLICTS] += 1
    return False


def throttle(error: Exception) -> Exception:
    """Count a throttled transaction. Return the given error, which the caller raises."""
    COUNTS[THROTTLES] += 1
    return error


def take() -> dict[str, int]:
    """Return the counts and reset them."""
    taken = dict(COUNTS)
    COUNTS.clear()
    return taken
