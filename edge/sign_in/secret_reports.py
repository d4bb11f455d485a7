"""Stores which modules have a secret that cannot be decrypted, for the status of edges."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from cachetools import TTLCache

from chalicelib.model.edges import application_errors
from chalicelib.storage.client import aws

_PAUSE = 60  # seconds
_MAX_REPORTED = 10_000


class SecretReports:
    """Stores that the secret of a module cannot be decrypted, at most once a minute for each route and digest."""

    def __init__(self, module: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._module = module
        self._reported: TTLCache[tuple[str, str], None] = TTLCache(_MAX_REPORTED, _PAUSE, timer=clock)

    async def store(self, account: str, edge: str, route: str, digest: str) -> None:
        """Store the error of a route. Ignore failures of the store."""
        if (route, digest) in self._reported:
            return
        self._reported[route, digest] = None
        with suppress(aws.AwsError):  # the answer to the visitor does not depend on the report
            write = application_errors.write_unreadable
            await asyncio.to_thread(write, account, edge, route, self._module, digest)
