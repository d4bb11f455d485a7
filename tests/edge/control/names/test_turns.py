"""Work for many names: in their order, by few tasks."""

import asyncio

from edge.control.names.turns import Turns


def test_names_wait_without_a_task_for_their_turn() -> None:
    async def run() -> tuple[list[str], int]:
        done, may_work = list[str](), asyncio.Event()

        async def work(name: str) -> None:
            await may_work.wait()
            done.append(name)

        turns, before = Turns(work, 4), len(asyncio.all_tasks())
        for number in range(500):
            turns.add(f"{number}")
        await asyncio.sleep(0)
        tasks = len(asyncio.all_tasks()) - before
        may_work.set()
        async with asyncio.timeout(5):
            while len(done) < 500:
                await asyncio.sleep(0)
        turns.add("last")
        async with asyncio.timeout(5):
            while done[-1] != "last":
                await asyncio.sleep(0)
        return done, tasks

    done, tasks = asyncio.run(run())
    assert (sorted(done[:-1], key=int), tasks) == ([f"{number}" for number in range(500)], 4)


def test_cancelled_work_ends_and_no_other_begins() -> None:
    async def run() -> list[str]:
        begun = list[str]()

        async def work(name: str) -> None:
            begun.append(name)
            await asyncio.Event().wait()

        turns, before = Turns(work, 1), len(asyncio.all_tasks())
        turns.add("first")
        turns.add("second")
        await asyncio.sleep(0)
        turns.cancel()
        async with asyncio.timeout(5):
            while len(asyncio.all_tasks()) > before:
                await asyncio.sleep(0)
        turns.add("third")
        await asyncio.sleep(0)
        return begun

    assert asyncio.run(run()) == ["first", "third"]
