"""The parent of Envoy, with a program in the place of Envoy and the sockets of Envoy in this process."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from edge.process.envoy_process import envoy_parent
from edge.process.settings import ADMIN_SOCKET, BOOTSTRAP, DRAIN_TIMEOUT, STATS_SOCKET, SettingError, Settings

_PROGRAM = """#!/bin/sh
for name in USR1 TERM; do trap "echo $name >> signals" $name; done
echo "$@" > arguments
until grep -qs TERM signals; do sleep 0.05; done
"""


@dataclass
class Envoy:
    """What the parent asks Envoy. `open` is the number of visitors' connections."""

    settings: Settings
    draining: asyncio.Event
    running: "asyncio.Task[None] | None" = None
    open: int = 1
    posted: list[str] = field(default_factory=list)
    counted: int = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, path, _ = (await reader.readuntil(b"\r\n\r\n")).decode().split(" ", 2)
        if method == "POST":
            self.posted.append(path)
        else:
            self.counted += 1
        body = f'envoy_listener_downstream_cx_active{{envoy_listener_address="https"}} {self.open}\n'
        writer.write(f"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()

    def read(self, name: str) -> list[str]:
        file = self.settings.directory / name
        return file.read_text().split() if file.exists() else []


def run(work: Callable[[Envoy], Awaitable[None]], folder: Path, *, timeout: int) -> None:
    """Run the parent with a drain of some seconds, and a test."""
    program = folder / "envoy"
    program.write_text(_PROGRAM)
    program.chmod(0o700)
    settings = Settings(directory=folder, envoy=str(program))
    settings.own_file(BOOTSTRAP).write_text(json.dumps({"node": {"metadata": {DRAIN_TIMEOUT: timeout}}}))

    async def main() -> None:
        envoy = Envoy(settings, asyncio.Event())
        async with AsyncExitStack() as stack, asyncio.timeout(30):
            for socket in (ADMIN_SOCKET, STATS_SOCKET):
                path = str(settings.own_file(socket))
                await stack.enter_async_context(await asyncio.start_unix_server(envoy.handle, path))
            envoy.running = asyncio.create_task(envoy_parent.run(settings, envoy.draining))
            await until(lambda: bool(envoy.read("arguments")) and signal.getsignal(signal.SIGUSR1) != signal.SIG_DFL)
            await work(envoy)

    asyncio.run(main())


async def until(is_true: Callable[[], bool]) -> None:
    while not is_true():
        await asyncio.sleep(0.01)


def test_a_drain_closes_the_public_ports_and_waits_for_the_visitors(tmp_path: Path) -> None:
    async def work(envoy: Envoy) -> None:
        assert envoy.running
        arguments = envoy.read("arguments")
        assert arguments[arguments.index("--drain-time-s") + 1] == "120"
        os.kill(os.getpid(), signal.SIGUSR1)
        await until(lambda: envoy.read("signals") == ["USR1"])
        envoy.draining.set()
        await until(lambda: envoy.posted == ["/healthcheck/fail"])
        before = time.monotonic()  # connections that have begun are accepted before the ports close
        await until(lambda: len(envoy.posted) > 1)
        assert envoy.posted[1:] == ["/drain_listeners?inboundonly"]
        assert time.monotonic() - before > 0.8
        await until(lambda: envoy.counted > 2)
        assert envoy.read("signals") == ["USR1"]
        envoy.open = 0
        await envoy.running
        assert envoy.read("signals") == ["USR1", "TERM"]

    run(work, tmp_path, timeout=60)


def test_a_drain_ends_after_its_time_also_if_visitors_stay(tmp_path: Path) -> None:
    async def work(envoy: Envoy) -> None:
        assert envoy.running
        envoy.draining.set()
        await envoy.running
        assert (envoy.read("signals"), envoy.counted > 0) == (["TERM"], True)

    run(work, tmp_path, timeout=2)


def test_an_envoy_that_ends_alone_is_an_error(tmp_path: Path) -> None:
    async def work(envoy: Envoy) -> None:
        assert envoy.running
        (tmp_path / "signals").write_text("TERM\n")
        with pytest.raises(SettingError, match=r"Envoy ended \(status 0\)"):
            await envoy.running

    run(work, tmp_path, timeout=60)
