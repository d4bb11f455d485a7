"""Prepares a process that Lambda starts from a snapshot of memory (SnapStart).

Several processes start from one snapshot, so they would share its connections and its random numbers. Ids and tokens
are not affected: they use the system's random source, which differs in each process.
"""

import os
import random
from collections.abc import Callable

from chalicelib.storage.client import aws, call_counts

_renewals: list[Callable[[], None]] = []


def on_restore(renew: Callable[[], None]) -> None:
    """Register a function to call when this process starts from a snapshot."""
    _renewals.append(renew)


def renew() -> None:
    """Seed the random numbers, close connections, and reset call counts. Then call all registered functions."""
    random.seed()
    aws.close_connections()
    call_counts.take()
    for each in _renewals:
        each()


if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "snap-start":
    from snapshot_restore_py import register_after_restore  # type: ignore[import-not-found]  # of Lambda's runtime

    register_after_restore(renew)
