"""The socket by which `te requests` sends commands to a running `te http`. Each line is a JSON object."""

import asyncio
import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tunnel_edge.identity import files
from tunnel_edge.inspector import exports, texts
from tunnel_edge.inspector.exchanges import Exchange, Journal
from tunnel_edge.inspector.replay import Replay, ReplayRefused, from_text, to_text

_MAX_LINE = 2 * 1024 * 1024  # size limit of a command in bytes
_MAX_PATH = 100  # size limit of a socket's path in bytes. Some systems accept 104, including the final zero


class Control:
    """Answers commands about recorded requests, from a journal. `get_url` returns the URL of the tunnel."""

    def __init__(self, journal: Journal, replay: Replay, get_url: Callable[[], str]) -> None:
        self._journal, self._replay, self._get_url = journal, replay, get_url

    async def listen(self, file: Path) -> asyncio.Server:
        """Listen on a socket that only this user can open. Raises OSError."""
        files.private_folder(file.parent)
        file.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            with shorten_path(file) as path:
                return await asyncio.start_unix_server(self._serve, path, limit=_MAX_LINE)
        finally:
            os.umask(before)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError):
            answer = await self._answer(json.loads(await reader.readline()))
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        writer.close()

    async def _answer(self, command: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the result of a command, or its error."""
        with_secrets = command.get("with_secrets") is True
        try:
            match command.get("command"):
                case "list":
                    return {"result": [exports.summarize(exchange) for exchange in self._journal.newest_first()]}
                case "show":
                    return {"result": exports.describe(self._find(command), with_secrets=with_secrets)}
                case "text":
                    return {"result": to_text(self._find(command))}
                case "replay":
                    return {"result": await self._send_again(command)}
                case "curl":
                    return {"result": exports.as_curl(self._find(command), self._get_url(), with_secrets=with_secrets)}
                case "har":
                    return {"result": exports.as_har([self._find(command)], self._get_url(), with_secrets=with_secrets)}
        except KeyError:
            return {"error": f"There is no request {command.get('id')}.", "missing": True}
        except (ReplayRefused, ValueError) as error:
            return {"error": str(error)}
        return {"error": "The running te http does not know this command: use the same version of te for both."}

    async def _send_again(self, command: Mapping[str, Any]) -> Mapping[str, Any]:
        original, text = self._find(command), command.get("text")
        edited = from_text(text, original) if isinstance(text, str) else None
        replayed = await self._replay.send(original.id, edited)
        return {**exports.describe(replayed), "differences": texts.differences(original, replayed)}

    def _find(self, command: Mapping[str, Any]) -> Exchange:
        """Return the recorded request with the id in a command. Raises KeyError if it does not exist."""
        id = command.get("id")
        exchange = self._journal.find(id) if isinstance(id, int) else None
        if exchange is None:
            raise KeyError(id)
        return exchange


@contextlib.contextmanager
def shorten_path(file: Path) -> Iterator[str]:
    """Yield a path by which a socket can be opened. If its own path is too long, yield a path below /proc (Linux)."""
    if len(os.fsencode(file)) <= _MAX_PATH or not os.path.isdir("/proc/self/fd"):
        yield str(file)
        return
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{file.name}"
    finally:
        os.close(folder)


def socket_file(pid: int) -> Path:
    """Return the path of the socket of a process."""
    return files.state_folder() / "run" / f"{pid}.sock"
