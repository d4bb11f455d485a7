"""What a channel stores for a reader that pauses."""

import asyncio
from typing import Any, cast

import asyncssh

from tests.cli.tunnels.gateways import SIGN_IN, Plan, serve
from tunnel_edge.tunnels import connection, windows
from tunnel_edge.tunnels.relay import Relay
from tunnel_edge.tunnels.requested import RequestedTunnel


class Slow(asyncssh.SSHTCPSession[bytes]):
    """A session that pauses after each piece. It opens its own channels, as a relay does."""

    read = 0

    def accept(self, *_: object) -> "Slow":
        return self

    def connection_made(self, chan: "asyncssh.SSHTCPChannel[bytes]") -> None:
        windows.bound(chan)
        self.channel = chan

    def data_received(self, data: bytes, datatype: Any) -> None:
        self.read += len(data)
        self.channel.pause_reading()


def test_a_fast_peer_of_a_slow_reader_waits() -> None:
    async def main() -> int:
        plan, slow, count = Plan(), Slow(), 0

        async def pump() -> None:
            nonlocal count
            _, writer = await plan.visit()
            while True:
                writer.write(bytes(32768))
                count += 32768
                await writer.drain()

        async with asyncio.timeout(20), serve(plan) as gateway:
            gateway_connection = await connection.connect(gateway, SIGN_IN, lambda _: None)
            await gateway_connection.open(RequestedTunnel("http", "demo"), cast(Relay, slow))
            pumping = asyncio.create_task(pump())
            while slow.read < 2 << 20:
                await asyncio.sleep(0.005)
                if slow.read:
                    slow.channel.resume_reading()
            pumping.cancel()
            await gateway_connection.close()
        return count - slow.read

    assert asyncio.run(main()) < 4 << 20  # one window of 2 MiB, and what the peer has not sent
