"""What a process renews after it was restored from a snapshot, with which other processes began as well.

Ids and tokens come from the system's random source, which is different in each process.
"""

import os
import random
from collections.abc import Callable

from chalicelib.storage.client import aws, call_counts

_renewals: list[Callable[[], None]] = []


def on_restore(renew: Callable[[], None]) -> None:
    """Call a function when this process is restored."""
    _renewals.append(renew)


def renew() -> None:
    """Renew the random numbers of pauses, the connections and everything that `on_restore` names."""
    random.seed()
    aws.close_connections()
    call_counts.take()
    for each in _renewals:
        each()


if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "snap-start":
    from snapshot_restore_py import register_after_restore  # type: ignore[import-not-found]  # of Lambda's runtime

    register_after_restore(renew)
