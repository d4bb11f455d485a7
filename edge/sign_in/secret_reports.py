"""Stores an error if the secret of a route's module cannot be decrypted. The status of the edge shows the error."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from cachetools import TTLCache

from chalicelib.model.edges import application_errors
from chalicelib.storage.client import aws

_PAUSE = 60  # seconds between two reports of the same secret
_MAX_REPORTED = 10_000


class SecretReports:
    """Reports secrets of routes' modules that cannot be decrypted, for the status of the edge.

    A report is a record in the store, which is written at most once a minute for each version of a module.
    """

    def __init__(self, module: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._module = module
        self._reported: TTLCache[tuple[str, str], None] = TTLCache(_MAX_REPORTED, _PAUSE, timer=clock)

    async def store(self, account: str, edge: str, route: str, digest: str) -> None:
        """Report that the secret of a route's module cannot be decrypted. Ignore failures of the store."""
        if (route, digest) in self._reported:
            return
        self._reported[route, digest] = None
        with suppress(aws.AwsError):  # a failure of the store does not change the visitor's response
            write = application_errors.write_unreadable
            await asyncio.to_thread(write, account, edge, route, self._module, digest)
