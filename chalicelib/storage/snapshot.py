"""Renews a process that Lambda starts from a snapshot of memory. Other processes start from the same snapshot.

Ids and tokens use the system's random source, which already differs in each process.
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
    """Seed the random numbers, close connections, and call all renewals. Also reset the counts of calls to AWS.

    The renewals are the functions that `on_restore` registered.
    """
    random.seed()
    aws.close_connections()
    call_counts.take()
    for each in _renewals:
        each()


if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "snap-start":
    from snapshot_restore_py import register_after_restore  # type: ignore[import-not-found]  # of Lambda's runtime

    register_after_restore(renew)
