"""Visitors that send only a ClientHello, the first message of a handshake, with any server name."""

import asyncio
import socket
import ssl
import struct
import time
from collections.abc import Callable
from contextlib import suppress

from infra.local.cloud import HOST

_LENGTH = 40  # bytes of each server name
_WAITING = 4  # seconds of a flood whose visitors may wait for an answer at the same time
_RESET = struct.pack("ii", 1, 0)  # connections end without TIME_WAIT, else a minute of them uses all ports


def pad(label: str, domain: str) -> str:
    """Return the name of a label below a domain, with a label before it that completes the length."""
    rest = f".{domain}"
    return f"{label:x<{_LENGTH - len(rest)}}{rest}"


class Hello:
    """The first message of a handshake, in which the server name is replaced."""

    def __init__(self) -> None:
        received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl._create_unverified_context()
        self._name = pad("name", "hello.example")
        with suppress(ssl.SSLWantReadError):
            context.wrap_bio(received, sent, server_hostname=self._name).do_handshake()
        self._message = sent.read()

    def say(self, name: str) -> bytes:
        assert len(name) == _LENGTH
        return self._message.replace(self._name.encode(), name.encode())


async def flood(port: int, name: Callable[[int], str], rate: int, seconds: float) -> tuple[int, int]:
    """Send `rate` ClientHellos a second with many names. Return how many were sent, and how many were refused."""
    hello, began, sent, refused = Hello(), time.monotonic(), 0, 0
    running: set[asyncio.Task[bool]] = set()

    def count(task: asyncio.Task[bool]) -> None:
        nonlocal refused
        running.discard(task)
        refused += task.result()

    while (passed := time.monotonic() - began) < seconds:
        while sent < passed * rate and len(running) < _WAITING * rate:
            running.add(task := asyncio.create_task(_say(port, hello.say(name(sent)))))
            task.add_done_callback(count)
            sent += 1
        await asyncio.sleep(0.005)
    if running:
        await asyncio.wait(running)
    return sent, refused


async def _say(port: int, message: bytes) -> bool:
    """Send the message, and return whether the handshake is refused."""
    loop = asyncio.get_running_loop()
    with socket.socket() as raw:
        raw.setblocking(False)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        try:
            async with asyncio.timeout(10):
                await loop.sock_connect(raw, (HOST, port))
                await loop.sock_sendall(raw, message)
                answer = await loop.sock_recv(raw, 16)
                return not answer or answer[0] == 21  # an alert
        except TimeoutError:
            return False
        except OSError:
            return True
