"""The share of Envoy's connection limits, in the file that Envoy reads."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from edge.control import pressure
from edge.process import files
from edge.process.settings import Limits, Settings

LIMITS = Limits(max_connections=60, max_http_connections=20)


def test_a_start_without_connections_has_no_pressure(tmp_path: Path) -> None:
    pressure.reset(Settings(directory=tmp_path))
    file = tmp_path / "pressure"
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("0.0", 0o640)


@pytest.mark.parametrize(("connections", "expected"), [(15, "0.25"), (20, "0.33"), (90, "1.0")])
def test_the_share_of_the_limit_in_use_is_written(tmp_path: Path, connections: int, expected: str) -> None:
    settings, paths = Settings(directory=tmp_path, limits=LIMITS), list[bytes]()
    pressure.reset(settings)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        paths.append((await reader.readuntil(b"\r\n\r\n")).split(b" ")[1])
        line = f'envoy_connection_limit_active_connections{{prefix="https"}} {connections}\n'
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + line.encode())
        writer.close()

    async def run() -> None:
        with files.shorten_socket_path(tmp_path / "stats.sock") as short:
            server = await asyncio.start_unix_server(answer, str(short))
        async with server, asyncio.timeout(10):
            work = asyncio.create_task(pressure.write_changes(settings))
            while (tmp_path / "pressure").read_text() == "0.0":
                await asyncio.sleep(0.01)
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work

    asyncio.run(run())
    assert (tmp_path / "pressure").read_text() == expected
    assert paths[0].startswith(b"/stats/prometheus?filter=")
