"""The metrics of a process."""

import asyncio

from edge.process.metrics import ProcessMetrics
from edge.process.tasks import PeriodicTask


def test_the_lag_of_each_periodic_task_is_a_metric() -> None:
    async def read() -> str:
        done = asyncio.Event()

        async def work() -> None:
            done.set()

        running = asyncio.create_task(PeriodicTask("statuses", work, 60).run())
        await done.wait()
        text = await ProcessMetrics("control", dict, dict, ()).read()
        running.cancel()
        return text.decode()

    lines = [it for it in asyncio.run(read()).splitlines() if it.startswith("edge_control_lag_seconds")]
    assert lines == ['edge_control_lag_seconds{task="statuses"} 0.0']
