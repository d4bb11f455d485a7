"""Reads that are shared: few of them, and none that began before a request for it."""

import asyncio

import pytest

from edge.control.names.shared_reads import SharedReads


def test_requests_share_the_next_read_and_none_gets_an_earlier_one() -> None:
    async def work() -> None:
        value, begun, ended = "old", list[str](), asyncio.Event()

        async def read(key: str) -> str:
            begun.append(key)
            found = value
            await ended.wait()
            return f"{key} {found}"

        reads = SharedReads(read)
        first = asyncio.create_task(reads.get("a"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        value = "new"
        later = [asyncio.create_task(reads.get(key)) for key in ("a", "a", "a", "b")]
        await asyncio.sleep(0.01)
        ended.set()
        assert await first == "a old"
        assert await asyncio.gather(*later) == ["a new", "a new", "a new", "b new"]
        assert begun == ["a", "b", "a"]

    asyncio.run(work())


def test_a_read_that_fails_fails_for_its_requests_and_not_for_later_ones() -> None:
    async def work() -> None:
        failures = [OSError()]

        async def read(key: str) -> str:
            await asyncio.sleep(0)
            if failures:
                raise failures.pop()
            return "found"

        reads = SharedReads(read)
        failed = await asyncio.gather(reads.get("a"), reads.get("a"), return_exceptions=True)
        assert [type(it) for it in failed] == [OSError, OSError]
        assert await reads.get("a") == "found"

    asyncio.run(work())


def test_a_request_that_ends_early_leaves_the_read_to_the_others() -> None:
    async def work() -> None:
        async def read(key: str) -> str:
            await asyncio.sleep(0.01)
            return key

        reads = SharedReads(read)
        first, second = (asyncio.create_task(reads.get("a")) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == "a"
        with pytest.raises(asyncio.CancelledError):
            await first

    asyncio.run(work())
