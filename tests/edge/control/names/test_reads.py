"""Reads of a store that answers, fails, or is silent."""

import asyncio
import threading
import time

import pytest

from chalicelib.storage.records.decoding import MalformedRecord
from edge.control.names.reads import StoreReads
from edge.store.records import Unavailable, Undecodable


def away() -> str:
    raise Unavailable("away")


def test_a_read_returns_its_result_or_raises() -> None:
    async def ask() -> None:
        reads = StoreReads()
        assert await reads.for_visitor("{}{}".format, "a", "b") == "ab"
        assert await reads.of_change("{}".format, "c") == "c"
        for read in (reads.for_visitor, reads.of_change):
            with pytest.raises(Unavailable, match="away"):
                await read(away)
        assert not reads.is_away

    asyncio.run(ask())


def test_a_malformed_record_is_an_answer_of_the_store() -> None:
    def read() -> None:
        raise MalformedRecord("Tunnel", "name", "is missing")

    async def ask() -> None:
        reads, silent = StoreReads(), threading.Event()
        threading.Timer(1, silent.set).start()
        with pytest.raises(Unavailable):
            await reads.for_visitor(silent.wait)
        assert reads.is_away
        with pytest.raises(Undecodable):
            await reads.for_visitor(read)
        assert not reads.is_away

    asyncio.run(ask())


def test_a_silent_store_is_given_up_within_a_second_until_it_answers() -> None:
    silent = threading.Event()

    async def ask() -> None:
        reads, began = StoreReads(), time.monotonic()
        changes = asyncio.create_task(reads.of_change(silent.wait))
        with pytest.raises(Unavailable):
            await reads.for_visitor(silent.wait)
        assert 0.7 < time.monotonic() - began < 2
        assert reads.is_away
        silent.set()
        assert await changes
        assert not reads.is_away

    try:
        asyncio.run(ask())
    finally:
        silent.set()


def test_a_slow_read_is_awaited_while_others_are_answered() -> None:
    slow = threading.Event()

    async def ask() -> None:
        reads = StoreReads()
        slowly = asyncio.create_task(reads.for_visitor(slow.wait))
        end = time.monotonic() + 2
        while time.monotonic() < end:
            assert await reads.of_change(int, "1") == 1
            await asyncio.sleep(0.05)
        assert not slowly.done()
        slow.set()
        assert await slowly

    try:
        asyncio.run(ask())
    finally:
        slow.set()


def test_a_store_is_not_given_up_while_the_process_itself_is_busy() -> None:
    slow = threading.Event()

    async def ask() -> None:
        reads = StoreReads()
        slowly = asyncio.create_task(reads.for_visitor(slow.wait))
        await asyncio.sleep(0)
        time.sleep(1)  # the loop builds a large configuration, and starts no other read
        threading.Timer(0.3, slow.set).start()
        assert await slowly
        assert not reads.is_away

    try:
        asyncio.run(ask())
    finally:
        slow.set()
