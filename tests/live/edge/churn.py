"""Ports that two accounts open and close one after the other, while visitors come to them."""

import asyncio
import contextlib
import time
from collections import Counter
from random import Random

import asyncssh

from tests.live.edge.running import Edge

_OPEN = 0.8  # seconds for which each is


class Churn:
    """Two accounts that take turns at the ports of an edge; `met` counts who has answered whom."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self.met: Counter[tuple[str, str]] = Counter()  # the account that has the port, and the one that answers
        self._free = list(edge.settings.tcp_ports)

    async def run(self, seconds: float, *, a_second: int) -> None:
        """Open and close so many ports a second, each for a while."""
        random = Random(1)
        async with contextlib.AsyncExitStack() as stack:
            clients = {account: await self._client(stack, account) for account in ("acct_A", "acct_B")}
            async with asyncio.TaskGroup() as tasks:
                end = time.monotonic() + seconds
                while time.monotonic() < end:
                    port, account = self._free.pop(random.randrange(len(self._free))), random.choice(list(clients))
                    tasks.create_task(self._hold_connection(*clients[account], account, port))
                    await asyncio.sleep(1 / a_second)

    async def _client(self, stack: contextlib.AsyncExitStack, account: str) -> tuple[asyncssh.SSHClientConnection, int]:
        """Return a client of an account, and the port of a server that says which that is."""

        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(account.encode())
            writer.close()

        server = await stack.enter_async_context(await asyncio.start_server(answer, "127.0.0.1", 0))
        keys, port = [str(self._edge.key(account).file)], self._edge.settings.ssh_port
        client = await asyncssh.connect("127.0.0.1", port, client_keys=keys, known_hosts=None, config=None)
        return await stack.enter_async_context(client), server.sockets[0].getsockname()[1]

    async def _hold_connection(self, client: asyncssh.SSHClientConnection, to: int, account: str, port: int) -> None:
        listener = await client.forward_remote_port("", port, "127.0.0.1", to)
        end = time.monotonic() + _OPEN
        while time.monotonic() < end:
            self.met[account, await _answer(port)] += 1
            await asyncio.sleep(0.02)
        listener.close()
        await listener.wait_closed()
        await asyncio.sleep(0.1)
        self._free.append(port)


async def _answer(port: int) -> str:
    """Return what a port says, "" where it is not open."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.closing(writer):
            return (await asyncio.wait_for(reader.read(), 5)).decode()
    except OSError:
        return ""
