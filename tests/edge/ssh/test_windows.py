"""What the gateway stores of a client that sends faster than its visitor reads."""

import asyncio
from typing import Any

import asyncssh
import pytest

from edge.ssh.asyncssh_internals import ReadWindow

SIZE = 2 << 20  # bytes of a window


class Slow(asyncssh.SSHTCPSession[bytes]):
    """The server's end of a channel, which pauses after each piece."""

    read = 0

    def connection_made(self, chan: "asyncssh.SSHTCPChannel[bytes]") -> None:
        self.channel, self.window = chan, ReadWindow(chan)

    def data_received(self, data: bytes, datatype: Any) -> None:
        self.read += len(data)
        self.channel.pause_reading()


class Server(asyncssh.SSHServer):
    """Accepts one channel."""

    def __init__(self, slow: Slow) -> None:
        self._slow = slow

    def begin_auth(self, username: str) -> bool:
        return False

    def connection_requested(self, *_: object) -> Slow:
        return self._slow


@pytest.mark.parametrize("size", [SIZE, SIZE // 16])
def test_a_client_that_is_faster_than_its_visitor_waits(size: int) -> None:
    async def main() -> int:
        slow, count = Slow(), 0
        key = asyncssh.generate_private_key("ssh-ed25519")
        server = await asyncssh.listen("127.0.0.1", 0, server_factory=lambda: Server(slow), server_host_keys=[key])
        client = await asyncssh.connect(
            "127.0.0.1", server.get_port(), username="te", known_hosts=None, config=None, client_keys=None
        )
        _, writer = await client.open_connection("visitor", 80)
        slow.window.resize(size)

        async def pump() -> None:
            nonlocal count
            while True:
                writer.write(bytes(32768))
                count += 32768
                await writer.drain()

        pumping = asyncio.create_task(pump())
        async with asyncio.timeout(20):
            while slow.read < SIZE + (1 << 20):
                await asyncio.sleep(0.005)
                slow.channel.resume_reading()
        pumping.cancel()
        client.abort()
        server.close()
        return count - slow.read

    assert asyncio.run(main()) < size + (1 << 20)  # a window, and what the client has not sent
