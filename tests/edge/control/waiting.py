"""Waits for a condition in tests with asyncio."""

import asyncio
from collections.abc import Callable


async def until(holds: Callable[[], bool]) -> None:
    """Wait at most ten seconds until a condition holds."""
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.01)
