"""Certificates that are renewed while the edge runs: those it makes, and the operator's."""

import asyncio
import ssl
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from cryptography import x509
from envoy.extensions.transport_sockets.tls.v3.secret_pb2 import Secret
from envoy.service.discovery.v3 import ads_pb2_grpc
from envoy.service.discovery.v3.discovery_pb2 import DeltaDiscoveryRequest

from edge.control.control import Control
from edge.envoy.ads.catalog import TYPES
from edge.envoy.selector import OPERATOR_SECRET
from edge.link import authority
from edge.link import server as link
from edge.link.authority import Authority, KeyPair
from edge.link.proxy_protocol import Header
from edge.link.renewal import RenewedPair
from edge.process.settings import Settings
from tests.edge.edge_table import EdgeTable
from tests.live.edge.running import until


def test_a_certificate_that_is_made_here_is_made_again_after_its_period() -> None:
    renewed_pair = RenewedPair(lambda: authority.make("hop").issue("edge"), period=0.5)
    first = renewed_pair.pair()
    assert renewed_pair.pair() is first
    until(lambda: renewed_pair.pair().chain != first.chain, within=5)


class Target:
    """A tunnel that says nothing."""

    def on_connected(self, transport: asyncio.Transport, visitor: Header | None) -> asyncio.Protocol:
        return asyncio.Protocol()


def test_a_gateway_serves_a_fresh_certificate_after_its_period() -> None:
    async def ask() -> None:
        link_authority = authority.make("hop")
        server = await link.serve(link_authority, "gw-1", "127.0.0.1", 0, lambda _: Target(), period=0.5)
        port = server.sockets[0].getsockname()[1]
        first, second = [await _serial(link_authority, port) for _ in range(2)]
        assert first == second
        async with asyncio.timeout(5):
            while await _serial(link_authority, port) == first:
                await asyncio.sleep(0.05)
        server.close()

    asyncio.run(ask())


@dataclass(frozen=True)
class Interrupted(Authority):
    """An authority that issues its second certificate in vain."""

    issued: list[str] = field(default_factory=list)

    def issue(self, *names: str) -> KeyPair:
        self.issued.append(names[0])
        if len(self.issued) == 2:
            raise OSError
        return super().issue(*names)


def test_a_gateway_goes_on_to_renew_its_certificate_when_that_has_failed_once() -> None:
    async def issue_often() -> list[str]:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        interrupted = Interrupted(**vars(authority.make("hop")))
        server = await link.serve(interrupted, "gw-1", "127.0.0.1", 0, lambda _: Target(), period=0.05)
        async with asyncio.timeout(5):
            while len(interrupted.issued) <= 2:
                await asyncio.sleep(0.01)
        server.close()
        return interrupted.issued

    assert len(asyncio.run(issue_often())) > 2


async def _serial(link_authority: Authority, port: int) -> int:
    context = ssl.create_default_context(cadata=link_authority.pem)
    context.check_hostname = False
    authority.load_into(context, link_authority.issue("edge"))
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="tn")
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(der).serial_number


def test_the_operators_certificate_is_served_when_its_files_are_renewed(tmp_path: Path) -> None:
    chain, key = tmp_path / "fullchain.pem", tmp_path / "privkey.pem"
    first, second = (authority.make("Operator").issue("*.tunnels.localhost") for _ in range(2))

    def put(pair: KeyPair) -> None:
        chain.write_text(pair.chain)
        key.write_text(pair.key)

    async def ask() -> None:
        settings = Settings(directory=tmp_path, certificate=str(chain), private_key=str(key))
        store = EdgeTable()
        serving = asyncio.create_task(Control(settings, store.authority).serve())
        try:
            assert await _secret(tmp_path) == first
            put(second)
            while await _secret(tmp_path) != second:
                await asyncio.sleep(0.05)
            key.unlink()
            await asyncio.sleep(0.5)
            assert await _secret(tmp_path) == second
        finally:
            serving.cancel()
            store.end()

    put(first)
    asyncio.run(ask())


async def _secret(folder: Path) -> KeyPair:
    """Return the operator's certificate as Envoy reads it."""
    async with asyncio.timeout(10):
        while not (folder / "discovery.sock").exists():
            await asyncio.sleep(0.01)
        async with grpc.aio.insecure_channel(f"unix:{folder / 'discovery.sock'}") as channel:
            ask = DeltaDiscoveryRequest(type_url=TYPES["secret"], resource_names_subscribe=[OPERATOR_SECRET])
            answers = ads_pb2_grpc.AggregatedDiscoveryServiceStub(channel).DeltaAggregatedResources(iter([ask]))
            async for answer in answers:
                certificate = Secret.FromString(answer.resources[0].resource.value).tls_certificate
                return KeyPair(certificate.certificate_chain.inline_string, certificate.private_key.inline_string)
    raise AssertionError("no answer")
