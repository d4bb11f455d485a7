"""What the signals of a process do: the first SIGTERM begins a drain, if the part has one."""

import asyncio
import os
import signal

import pytest

from edge.__main__ import run_until_signal
from edge.process.settings import Settings


@pytest.mark.parametrize(
    ("drains", "signals", "drained"),
    [
        (True, [signal.SIGTERM, signal.SIGTERM], True),
        (True, [signal.SIGTERM, signal.SIGINT], True),
        (True, [signal.SIGINT], False),
        (True, [signal.SIGHUP], False),
        (False, [signal.SIGTERM], False),
        (False, [signal.SIGINT], False),
    ],
)
def test_a_part_ends_with_the_last_of_these_signals_and_not_before(
    drains: bool, signals: list[signal.Signals], drained: bool
) -> None:
    calls: list[bool] = []

    async def serve(_: Settings, draining: asyncio.Event) -> None:
        try:
            for number in signals:
                assert not calls
                os.kill(os.getpid(), number)
                await asyncio.sleep(0.05)
            raise AssertionError
        except asyncio.CancelledError:
            calls.append(draining.is_set())
            raise

    async def main() -> None:
        async with asyncio.timeout(10):
            await run_until_signal(serve, Settings(), drains=drains)

    asyncio.run(main())
    assert calls == [drained]
