"""The sign-in service for Envoys of other hosts: who is answered, and how its certificate is replaced."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from envoy.service.auth.v3 import external_auth_pb2_grpc
from envoy.service.auth.v3.external_auth_pb2 import CheckRequest, CheckResponse

from chalicelib.model.sign_in import link_pairs
from chalicelib.model.sign_in.link_pairs import LinkPair
from edge.link import authority, server
from edge.link.authority import Authority, KeyPair
from edge.sign_in import sign_in_link
from edge.sign_in.sign_in_link import SignInLink
from edge.store import link_authority
from tests.conftest import free_port

LINK, OTHER = authority.make("Link"), authority.make("Other")


class Answering(external_auth_pb2_grpc.AuthorizationServicer):  # type: ignore[misc]  # no type hints
    """A service that counts."""

    request_count = 0

    async def Check(self, request: CheckRequest, context: Any) -> CheckResponse:
        self.request_count += 1
        return CheckResponse()


@contextlib.asynccontextmanager
async def serving(answering: Answering) -> AsyncIterator[tuple[SignInLink, int]]:
    port = free_port()
    link = SignInLink(grpc.aio.server(), answering, f"127.0.0.1:{port}")
    task = asyncio.create_task(link.serve())
    yield link, port
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def until(true: Callable[[], Any], *, within: float = 10) -> None:
    async with asyncio.timeout(within):
        while not await true():
            await asyncio.sleep(0.02)


async def ask(port: int, pair: KeyPair | None, trusted_authority: Authority = LINK) -> str:
    """Return the status of a request by a client with a certificate, if it has one."""
    key, chain = (pair.key.encode(), pair.chain.encode()) if pair else (None, None)
    credentials = grpc.ssl_channel_credentials(trusted_authority.pem.encode(), key, chain)
    options = [("grpc.ssl_target_name_override", server.SIGN_IN), ("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, options) as channel:
        try:
            await external_auth_pb2_grpc.AuthorizationStub(channel).Check(CheckRequest(), timeout=10)
        except grpc.aio.AioRpcError as error:
            return str(error.code().name)
    return "OK"


def test_only_edge_hosts_are_answered() -> None:
    link_authority.renew_sign_in_pair(LINK)
    server_pair = LINK.issue_for_server(server.SIGN_IN)

    async def run() -> None:
        answering = Answering()
        async with serving(answering) as (link, port):
            await until(lambda: is_ready(link))
            assert await ask(port, LINK.issue(server.CLIENT)) == "OK"
            assert await ask(port, LINK.issue("gw-1")) == "PERMISSION_DENIED"
            for refused_pair in (None, server_pair, OTHER.issue(server.CLIENT)):
                assert await ask(port, refused_pair) == "UNAVAILABLE"
            assert await ask(port, LINK.issue(server.CLIENT), OTHER) == "UNAVAILABLE"  # which trusts no other server
        assert answering.request_count == 1

    asyncio.run(run())


def test_handshakes_at_the_same_time_succeed() -> None:
    """gRPC would end the process if each handshake replaced the certificate."""
    link_authority.renew_sign_in_pair(LINK)
    context = ssl.create_default_context(cadata=LINK.pem)
    authority.load_into(context, LINK.issue(server.CLIENT))
    context.set_alpn_protocols(["h2"])

    def shake_hands(port: int) -> str | None:
        socket.create_connection(("127.0.0.1", port), 10).close()  # as Envoy's health checks do
        raw = socket.create_connection(("127.0.0.1", port), 10)
        with raw, context.wrap_socket(raw, server_hostname=server.SIGN_IN) as secured:
            return secured.selected_alpn_protocol()

    async def run() -> None:
        async with serving(Answering()) as (link, port):
            await until(lambda: is_ready(link))
            with ThreadPoolExecutor(20) as clients:
                loop = asyncio.get_running_loop()
                answers = await asyncio.gather(*(loop.run_in_executor(clients, shake_hands, port) for _ in range(400)))
        assert set(answers) == {"h2"}

    asyncio.run(run())


async def is_ready(link: SignInLink) -> bool:
    return not await link.find_unready()


def test_it_listens_once_there_is_a_pair_and_takes_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_in_link, "REFRESH", 0.05)
    client = LINK.issue(server.CLIENT)

    async def run() -> None:
        async with serving(Answering()) as (link, port):
            assert await link.find_unready() == "the sign-in service has no certificate for the link yet"
            assert await ask(port, client) == "UNAVAILABLE"
            link_authority.renew_sign_in_pair(LINK)
            await until(lambda: is_ready(link))
            assert await ask(port, client) == "OK"
            link_pairs.write(LinkPair(chain="damaged", authority="", made_at=1), b"damaged")
            assert await ask(port, client) in ("OK", "UNAVAILABLE")
            link_authority.renew_sign_in_pair(OTHER)

            async def trusts_other() -> bool:
                return await ask(port, OTHER.issue(server.CLIENT), OTHER) == "OK"

            await until(trusts_other)
            assert await ask(port, client) == "UNAVAILABLE"

    asyncio.run(run())
