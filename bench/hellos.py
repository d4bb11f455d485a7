"""Visitors that send only a ClientHello, the first message of a handshake, with any server name."""

import asyncio
import ssl
import time
from collections.abc import Callable
from contextlib import suppress

from infra.local.cloud import HOST

_LENGTH = 40  # bytes of each server name


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
    hello, began, refused = Hello(), time.monotonic(), 0
    running: set[asyncio.Task[bool]] = set()
    sent = 0
    while (passed := time.monotonic() - began) < seconds:
        while sent < passed * rate and len(running) < rate:
            running.add(asyncio.create_task(_say(port, hello.say(name(sent)))))
            sent += 1
        done, running = {it for it in running if it.done()}, {it for it in running if not it.done()}
        refused += sum(it.result() for it in done)
        await asyncio.sleep(0.005)
    refused += sum(await asyncio.gather(*running))
    return sent, refused


async def _say(port: int, message: bytes) -> bool:
    """Send the message, and return whether the handshake is refused."""
    try:
        async with asyncio.timeout(10):
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(message)
            answer = await reader.read(16)
            writer.close()
            return not answer or answer[0] == 21  # an alert
    except TimeoutError:
        return False
    except OSError:
        return True
