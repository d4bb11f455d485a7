"""Private keys for Envoy, over a Unix socket that its user and control's may open (SDS). They are in no file.

Envoy asks as JSON over HTTP/1.1 (its REST form of SDS), once for each secret and then every few seconds.
"""

import asyncio
import contextlib
import hashlib
import json
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from edge.authority import KeyPair
from edge.records import Unavailable

_TYPE = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
_MAX_HEAD, _MAX_BODY = 64 * 1024, 1024 * 1024
Find = Callable[[str], Awaitable[KeyPair | None]]


@contextlib.contextmanager
def short(path: Path) -> Iterator[Path]:
    """Yield another path of a socket that has few bytes: the system takes no more than 107."""
    folder = os.open(path.parent, os.O_PATH)
    try:
        yield Path(f"/proc/self/fd/{folder}") / path.name
    finally:
        os.close(folder)


async def serve(path: Path, find: Find) -> asyncio.Server:
    """Answer on a socket of mode 0660 with what `find` has under a name."""
    path.unlink(missing_ok=True)
    before = os.umask(0o117)  # so that there is no moment at which others may open it
    try:
        return await asyncio.start_unix_server(lambda *streams: _converse(find, *streams), path, limit=_MAX_HEAD)
    finally:
        os.umask(before)


async def _converse(find: Find, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            status, body = await _answer(find, await _request(reader))
            head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ValueError):
        pass  # Envoy has gone, or it was not Envoy
    except asyncio.CancelledError:
        pass  # control ends; asyncio's streams would log a cancelled conversation as an error
    finally:
        writer.close()


async def _request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [line.partition(b":")[2] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    length = int(lengths[0])
    if length > _MAX_BODY:
        raise ValueError("must be a request for secrets")
    return await reader.readexactly(length)


async def _answer(find: Find, request: bytes) -> tuple[str, bytes]:
    asked = json.loads(request)
    try:
        found = {name: await find(name) for name in asked["resource_names"]}
    except Unavailable:
        return "503 Service Unavailable", b""  # Envoy keeps what it has, and asks again
    resources = [_secret(name, pair) for name, pair in found.items() if pair]
    version = hashlib.sha256("".join(pair.chain for pair in found.values() if pair).encode()).hexdigest()[:16]
    if asked.get("version_info") == version:
        return "304 Not Modified", b""
    return "200 OK", json.dumps({"version_info": version, "type_url": _TYPE, "resources": resources}).encode()


def _secret(name: str, pair: KeyPair) -> object:
    certificate = {"certificate_chain": {"inline_string": pair.chain}, "private_key": {"inline_string": pair.key}}
    return {"@type": _TYPE, "name": name, "tls_certificate": certificate}
