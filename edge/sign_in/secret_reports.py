"""Stores which modules of routes have a secret that cannot be decrypted. The status of the edge shows it."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from cachetools import TTLCache

from chalicelib.model.edges import application_errors
from chalicelib.storage.client import aws

_PAUSE = 60  # seconds until it is stored again that the same secret cannot be decrypted
_MAX_REPORTED = 10_000


class SecretReports:
    """Stores that the secret of a route's module cannot be decrypted.

    This is stored at most once a minute for each version of a module.
    """

    def __init__(self, module: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._module = module
        self._reported: TTLCache[tuple[str, str], None] = TTLCache(_MAX_REPORTED, _PAUSE, timer=clock)

    async def store(self, account: str, edge: str, route: str, digest: str) -> None:
        """Store that the secret of a route's module cannot be decrypted. Failures of the store are ignored."""
        if (route, digest) in self._reported:
            return
        self._reported[route, digest] = None
        with suppress(aws.AwsError):  # the visitor gets an answer even if the error cannot be stored
            write = application_errors.write_unreadable
            await asyncio.to_thread(write, account, edge, route, self._module, digest)
