"""Coroutines that run at the same time and end together."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def run_all(*work: Coroutine[Any, Any, None]) -> None:
    """Run coroutines until one fails or all are cancelled. Unlike gather, wait until each has cleaned up."""
    tasks = [asyncio.create_task(it) for it in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            if not task.cancelling():
                task.cancel()
        await asyncio.wait(tasks)
