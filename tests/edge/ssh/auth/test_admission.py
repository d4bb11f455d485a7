"""How connections of SSH clients are let in, however many come at once."""

import asyncio
import socket

from edge.ssh.auth import admission

CLIENTS = 200


class Counted(asyncio.Protocol):
    """A connection, counted with those that were made in the same turn of the loop."""

    turn = 0
    counts: dict[int, int]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        Counted.counts[Counted.turn] = Counted.counts.get(Counted.turn, 0) + 1


def test_of_many_connections_that_come_at_once_a_few_are_made_before_others_have_their_turn() -> None:
    async def connect() -> None:
        Counted.counts = {}
        server = await admission.listen(Counted, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        clients = [socket.create_connection(address, 1) for _ in range(CLIENTS)]  # all wait: the loop has no turn
        async with server, asyncio.timeout(5):
            while sum(Counted.counts.values()) < CLIENTS:
                await asyncio.sleep(0)
                Counted.turn += 1
            for client in clients:
                client.close()

    asyncio.run(connect())
    assert max(Counted.counts.values()) <= 16
