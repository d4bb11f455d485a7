"""A program that is watched, as `python -m edge` watches its own."""

import asyncio
import os
import signal
from pathlib import Path

from edge.process.children import Child, Program


def test_a_program_that_cannot_be_started_again_is_tried_until_it_can(tmp_path: Path) -> None:
    async def ask() -> None:
        program, moved_program = tmp_path / "program", tmp_path / "away"
        program.write_text("#!/bin/sh\nexec sleep 60\n")
        program.chmod(0o700)
        child = Child(Program("it", [str(program)]))
        await child.start()
        try:
            first = child.pid
            assert first
            program.rename(moved_program)
            os.kill(first, signal.SIGKILL)
            async with asyncio.timeout(5):
                while child.pid == first:
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.4)
            assert child.pid is None
            moved_program.rename(program)
            async with asyncio.timeout(5):
                while child.pid is None:
                    await asyncio.sleep(0.01)
        finally:
            await child.end()

    asyncio.run(ask())
