"""Coroutines that run at the same time: whoever waits for them waits until each has cleaned up."""

import asyncio
from contextlib import suppress

import pytest

from edge.process import tasks


async def quick() -> None:
    await asyncio.Event().wait()


async def slow(ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        for _ in range(3):
            await asyncio.sleep(0)
        ended.append("slow")


async def failing() -> None:
    raise OSError("failing")


async def cancelled_after_a_moment(*names: str) -> list[str]:
    ended: list[str] = []
    work = [slow(ended) if name == "slow" else quick() for name in names]
    running = asyncio.create_task(tasks.run_all(*work))
    await asyncio.sleep(0.01)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    return ended


@pytest.mark.parametrize("names", [("quick", "slow"), ("slow", "quick"), ("slow",)])
def test_cancelling_waits_for_those_that_clean_up(names: tuple[str, ...]) -> None:
    assert asyncio.run(cancelled_after_a_moment(*names)) == ["slow"]


def test_a_failure_ends_the_others_and_is_raised() -> None:
    ended: list[str] = []

    async def run() -> None:
        with pytest.raises(OSError, match="failing"):
            await tasks.run_all(slow(ended), asyncio.sleep(0.01), failing())

    asyncio.run(run())
    assert ended == ["slow"]
