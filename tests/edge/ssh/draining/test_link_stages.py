"""The ports of a gateway's link, and to which stage a connection belongs."""

import asyncio
from dataclasses import replace

import pytest

from edge.link import authority, client
from edge.link.held_connections import Side
from edge.link.proxy_protocol import Header
from edge.process.settings import Settings
from edge.ssh.draining.link_stages import LinkStages
from tests.conftest import free_port

VISITOR = Header(("192.0.2.9", 49153), ("127.0.0.1", 443))
# Envoy's header of version 2 at the Unix socket: addresses, ports, and the id of the tunnel
LOCAL_HEADER = bytes.fromhex("0d0a0d0a000d0a515549540a 21110013 c0000209 7f000001 c001 01bb e00004") + b"tn_1"


class Silent:
    """A tunnel that never answers, and counts its connections."""

    count = 0

    def on_connected(self, transport: asyncio.Transport, visitor: Header | None) -> asyncio.Protocol:
        self.count += 1
        return asyncio.Protocol()


async def until_open(stages: LinkStages, counts: list[int]) -> None:
    async with asyncio.timeout(5):
        while [stages.count(number) for number in range(len(counts))] != counts:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("is_fixed", [False, True])
def test_each_stage_has_a_port_and_the_socket_belongs_to_the_last(settings: Settings, is_fixed: bool) -> None:
    port = free_port() if is_fixed else 0

    async def run() -> None:
        link_authority = authority.make("link")
        stages = LinkStages(replace(settings, hop_port=port), link_authority, "gw-1")
        context = client.build_context(link_authority)

        async def visit(port: int) -> Side:
            return await client.connect(context, "gw-1", ("127.0.0.1", port), "tn_1", VISITOR)

        async with stages.serve():
            first = await stages.open(lambda _: Silent())
            await visit(first)
            _, local = await asyncio.open_unix_connection(str(settings.link_socket("gw-1")))
            await until_open(stages, [2])
            second = await stages.open(lambda _: Silent())
            assert second != first
            await visit(second)
            await visit(first)
            _, later = await asyncio.open_unix_connection(str(settings.link_socket("gw-1")))
            await until_open(stages, [3, 2])
            stages.close(0)
            await until_open(stages, [0, 2])
            for writer in (local, later):
                writer.close()
        if is_fixed:
            assert (first, second) == (port, port + 1)

    asyncio.run(run())


def test_a_connection_at_the_socket_belongs_to_the_stage_in_which_it_began(settings: Settings) -> None:
    async def run() -> None:
        stages, first_target, second_target = LinkStages(settings, authority.make("link"), "gw-1"), Silent(), Silent()
        async with stages.serve():
            await stages.open({"tn_1": first_target}.get)
            _, writer = await asyncio.open_unix_connection(str(settings.link_socket("gw-1")))
            await until_open(stages, [1])
            await stages.open({"tn_1": second_target}.get)  # before the header
            writer.write(LOCAL_HEADER)
            async with asyncio.timeout(5):
                while not (first_target.count or second_target.count):
                    await asyncio.sleep(0.01)
            assert (first_target.count, second_target.count) == (1, 0)
            assert (stages.count(0), stages.count(1)) == (1, 0)
            writer.close()

    asyncio.run(run())
