"""Coroutines that run at the same time: whoever waits for them waits until each has cleaned up."""

import asyncio
import itertools
import time
from contextlib import suppress

import pytest

from edge.process import tasks
from edge.process.tasks import PeriodicTask


async def quick() -> None:
    await asyncio.Event().wait()


async def slow(names_of_ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        for _ in range(3):
            await asyncio.sleep(0)
        names_of_ended.append("slow")


async def failing() -> None:
    raise OSError("failing")


async def cancel_after_a_moment(*names: str) -> list[str]:
    names_of_ended: list[str] = []
    work = [slow(names_of_ended) if name == "slow" else quick() for name in names]
    running = asyncio.create_task(tasks.run_all(*work))
    await asyncio.sleep(0.01)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    return names_of_ended


@pytest.mark.parametrize("names", [("quick", "slow"), ("slow", "quick"), ("slow",)])
def test_cancelling_waits_for_those_that_clean_up(names: tuple[str, ...]) -> None:
    assert asyncio.run(cancel_after_a_moment(*names)) == ["slow"]


def test_a_failure_ends_the_others_and_is_raised() -> None:
    names_of_ended: list[str] = []

    async def run() -> None:
        with pytest.raises(OSError, match="failing"):
            await tasks.run_all(slow(names_of_ended), asyncio.sleep(0.01), failing())

    asyncio.run(run())
    assert names_of_ended == ["slow"]


def test_a_failure_also_ends_those_whose_timeout_is_over_at_the_same_moment() -> None:
    async def repeat() -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.02):
                    await asyncio.Event().wait()

    async def fail() -> None:
        await asyncio.sleep(0)  # until the other waits
        end = time.monotonic() + 0.03
        while time.monotonic() < end:  # the loop sees the timeout only after the failure
            pass
        raise OSError("failing")

    async def run() -> None:
        async with asyncio.timeout(5):
            await tasks.run_all(repeat(), fail())

    with pytest.raises(OSError, match="failing"):
        asyncio.run(run())


class Work:
    """Work whose runs end as a test says: with a result, or with an error that is raised."""

    def __init__(self, *outcomes: float | Exception | None) -> None:
        self._ends, self.at = list(outcomes), list[float]()
        self.done = asyncio.Event()

    async def run(self) -> float | None:
        self.at.append(time.monotonic())
        end = self._ends.pop(0)
        if not self._ends:
            self.done.set()
        if isinstance(end, Exception):
            raise end
        return end

    @property
    def pauses(self) -> list[float]:
        return [after - before for before, after in itertools.pairwise(self.at)]


async def until_done(work: Work, interval: float) -> PeriodicTask:
    """Run work periodically until its last end."""
    task = PeriodicTask("work", work.run, interval, failures=OSError)
    running = asyncio.create_task(task.run())
    await asyncio.wait({running, asyncio.create_task(work.done.wait())}, return_when=asyncio.FIRST_COMPLETED)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    return task


@pytest.mark.parametrize(
    ("interval", "outcomes", "bounds"),
    [
        (0.1, [None, None, None], [(0.09, 0.2), (0.09, 0.2)]),
        (60, [0.1, 0.2, None], [(0.09, 0.2), (0.18, 0.3)]),
        (60, [OSError(), OSError(), OSError(), None], [(0.09, 0.3), (0.18, 0.5), (0.36, 0.9)]),
        (60, [OSError(), OSError(), 0.1, OSError(), None], [(0.09, 0.3), (0.18, 0.5), (0.09, 0.2), (0.09, 0.3)]),
    ],
)
def test_pauses_between_runs(
    interval: float, outcomes: list[float | Exception | None], bounds: list[tuple[float, float]]
) -> None:
    work = Work(*outcomes)
    asyncio.run(until_done(work, interval))
    assert len(work.pauses) == len(bounds)
    for pause, (shortest, longest) in zip(work.pauses, bounds, strict=True):
        assert shortest <= pause <= longest + 0.5  # the machine may be busy


def test_waking_repeats_the_work_at_once() -> None:
    async def run() -> None:
        work = Work(None, None)
        task = PeriodicTask("work", work.run, 60)
        running = asyncio.create_task(task.run())
        while not work.at:
            await asyncio.sleep(0)
        task.wake()
        await asyncio.wait_for(work.done.wait(), 30)
        running.cancel()

    asyncio.run(run())


def test_the_lag_grows_from_when_the_next_success_was_due() -> None:
    async def run() -> None:
        failing, hanging = PeriodicTask("failing", Work(OSError()).run, 60, failures=OSError), asyncio.Event()
        fine = PeriodicTask("fine", Work(None).run, 60)

        async def hang() -> None:
            hanging.set()
            await asyncio.Event().wait()

        stuck = PeriodicTask("stuck", hang, 60)
        running = [asyncio.create_task(task.run()) for task in (failing, fine, stuck)]
        await hanging.wait()
        await asyncio.sleep(0.05)
        lags = tasks.lags()
        assert lags.keys() == {"failing", "fine", "stuck"}
        assert lags["fine"] == 0
        assert lags["failing"] >= 0.05
        assert lags["stuck"] >= 0.05
        for task in running:
            task.cancel()
        await asyncio.wait(running)
        assert tasks.lags() == {}

    asyncio.run(run())


def test_another_error_ends_the_task() -> None:
    with pytest.raises(ValueError, match="wrong"):
        asyncio.run(PeriodicTask("work", Work(ValueError("wrong")).run, 60, failures=OSError).run())


def test_retrying_returns_the_first_result() -> None:
    work = Work(OSError(), OSError(), 7.0)
    assert asyncio.run(tasks.retry(work.run, OSError)) == 7.0
    assert len(work.at) == 3


@pytest.mark.parametrize(
    ("failures", "shortest", "longest"), [(1, 0.1, 0.2), (2, 0.2, 0.4), (5, 1, 2), (100_000, 1, 2)]
)
def test_pauses_grow_up_to_two_seconds(failures: int, shortest: float, longest: float) -> None:
    assert shortest <= tasks.compute_pause(failures) <= longest
