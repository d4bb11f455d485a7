"""A check that runs before the events that came while the process was stopped."""

import asyncio
import socket

from edge.ssh import loops
from edge.ssh.loops import CheckingLoop


def test_a_check_runs_before_the_events() -> None:
    order: list[str] = []

    async def run() -> None:
        first, other = socket.socketpair()
        is_over = asyncio.Event()

        def read() -> None:
            order.append("event")
            is_over.set()

        asyncio.get_running_loop().add_reader(first, read)
        other.send(b"x")
        loops.check_before_events(lambda: order.append("check"))
        await is_over.wait()
        loops.check_before_events(None)
        asyncio.get_running_loop().remove_reader(first)
        first.close()
        other.close()

    with asyncio.Runner(loop_factory=CheckingLoop) as runner:
        runner.run(run())
    assert order[: order.index("event") + 1].count("check") >= 1
    assert order[order.index("event") - 1] == "check"


def test_another_loop_has_no_check() -> None:
    async def run() -> None:
        loops.check_before_events(lambda: None)

    asyncio.run(run())
