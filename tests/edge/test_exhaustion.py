"""A client that has signed in and means harm: what it can make the gateway keep, and for how long it may stay."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import asyncssh
from asyncssh.packet import String, UInt32

from tests.edge.running import Edge, Key, running

_CHANNEL_OPEN = 90


@contextlib.asynccontextmanager
async def signed_in(edge: Edge, key: Key) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """Yield the connection of a client that says what no `ssh` says."""
    port = edge.settings.ssh_port
    client = await asyncssh.connect("127.0.0.1", port, client_keys=[str(key.file)], known_hosts=None, config=None)
    try:
        yield client
    finally:
        client.abort()


class Session:
    """A channel that is opened and asks for nothing."""

    def __init__(self) -> None:
        self.is_open: bool | None = None

    def process_open_confirmation(self, *_: object) -> None:
        self.is_open = True

    def process_open_failure(self, *_: object) -> None:
        self.is_open = False

    def process_connection_close(self, _: object) -> None:
        pass


def test_a_connection_has_four_sessions_at_most_also_while_they_ask_for_nothing(tmp_path: Path) -> None:
    async def ask(edge: Edge) -> list[bool | None]:
        sessions = [Session() for _ in range(8)]
        async with signed_in(edge, edge.key("acct_A")) as client:
            for session in sessions:
                number, window = client.add_channel(session), UInt32(1 << 15)  # type: ignore[arg-type]
                client.send_packet(_CHANNEL_OPEN, String("session"), UInt32(number), window, window)
            while sessions[-1].is_open is None:
                await asyncio.sleep(0.01)
        return [session.is_open for session in sessions]

    with running(tmp_path, with_envoy=False) as edge:
        assert asyncio.run(ask(edge)) == [True] * 4 + [False] * 4


def test_a_connection_whose_last_tunnel_was_lost_is_ended_so_that_its_client_comes_back(tmp_path: Path) -> None:
    with running(tmp_path, with_envoy=False, lease=3, tunnel_timeout=1) as edge:
        client = edge.ssh(edge.key("acct_A"), "-N", "-R", "lost:80:localhost:1", terminal="-T")
        while not edge.store.online:
            time.sleep(0.01)
        edge.store.online.clear()

        assert client.ends(within=5) == 255


def test_a_connection_that_opens_no_tunnel_is_ended(tmp_path: Path) -> None:
    with running(tmp_path, with_envoy=False, tunnel_timeout=1) as edge:
        assert edge.ssh(edge.key("acct_A"), "-N", terminal="-T").ends(within=5) == 255
