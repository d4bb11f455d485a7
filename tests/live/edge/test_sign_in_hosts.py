"""An edge host without a sign-in service, and two sign-in services on other hosts, over the link."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from chalicelib.model.sign_in import link_pairs
from edge.link import authority
from edge.link.authority import KeyPair
from edge.process.settings import Settings
from edge.store import link_authority
from tests.conftest import free_port
from tests.edge.sign_in.samples import module
from tests.live.edge import module_site
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.module_site import Site
from tests.live.edge.running import ENVOY, Edge, listens, running, until
from tests.transports import Client

pytestmark = needs_envoy
NAVIGATES = ("-H", "sec-fetch-mode: navigate")
PORTS = (free_port(), free_port())


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    with running(tmp_path_factory.mktemp("edge"), with_envoy=ENVOY is not None, sign_in_ports=PORTS) as running_edge:
        yield running_edge


@contextlib.contextmanager
def host(edge: Edge, number: int) -> Iterator[Settings]:
    """Run the sign-in service of another host until the block ends."""
    folder = edge.folder / f"host-{number}"
    folder.mkdir(exist_ok=True)
    settings = replace(edge.settings, directory=folder, sign_in_hosts=(), sign_in_port=PORTS[number])
    settings = replace(settings, metrics_port=free_port(), metrics_by="sign-in")
    with module_site.verifying(edge, settings):
        until(lambda: listens(PORTS[number]))
        yield settings


@pytest.fixture
def site(edge: Edge, admin: Client) -> Iterator[Site]:
    link_authority.renew_sign_in_pair(edge.store.authority)  # each test begins with an empty table
    values = {"one": module(email_domains=["example.com"])}
    with module_site.serving(edge, admin, f"linked-{free_port()}", "oauth", values) as site:
        yield site


def read_chain(edge: Edge, port: int) -> bytes:
    """Return the certificate with which a sign-in service begins a new connection."""
    context = ssl.create_default_context(cadata=edge.store.authority.pem)
    authority.load_into(context, edge.store.authority.issue("edge"))
    context.set_alpn_protocols(["h2"])
    raw = socket.create_connection(("127.0.0.1", port), 10)
    with raw, context.wrap_socket(raw, server_hostname="sign-in") as secured:
        return secured.getpeercert(binary_form=True) or b""


def test_envoy_asks_the_sign_in_service_of_another_host(edge: Edge, site: Site) -> None:
    def ask() -> str:
        return edge.status(site.name, path="/one")

    assert not edge.settings.sign_in_socket.exists()
    assert ask() == "503"  # closed while no host serves
    with host(edge, 1) as settings:
        until(lambda: [ask() for _ in range(8)] == ["401"] * 8)
        address = f"http://127.0.0.1:{settings.metrics_port}"
        assert httpx.get(f"{address}/readyz").status_code == 200
        assert 'edge_up{process="sign-in"} 1' in httpx.get(f"{address}/metrics").text
        assert edge.status(site.name, *NAVIGATES, path="/one") == "302"
    assert ask() == "503"


def test_requests_succeed_while_a_host_restarts_and_the_pair_is_replaced(edge: Edge, site: Site) -> None:
    answers: list[str] = []
    is_over = threading.Event()

    def ask() -> None:
        while not is_over.is_set():
            answers.append(edge.status(site.name, path="/one"))

    with host(edge, 0):
        with contextlib.ExitStack() as second:
            second.enter_context(host(edge, 1))
            until(lambda: [edge.status(site.name, path="/one") for _ in range(8)] == ["401"] * 8)
            thread = threading.Thread(target=ask, daemon=True)
            thread.start()
            second.close()  # the other one serves alone
            count = len(answers)
            until(lambda: len(answers) > count + 20)
        stored = link_pairs.read()
        assert stored
        before = read_chain(edge, PORTS[0])
        link_pairs.write(replace(stored.pair, made_at=0), stored.open_key())
        link_authority.renew_sign_in_pair(edge.store.authority)
        until(lambda: read_chain(edge, PORTS[0]) != before)
        with host(edge, 1):
            count = len(answers)
            until(lambda: len(answers) > count + 20)
        is_over.set()
        thread.join(10)
    assert set(answers) == {"401"}


def test_envoy_sends_nothing_to_a_server_with_another_certificate(edge: Edge, site: Site) -> None:
    link, other = edge.store.authority, authority.make("Another")
    assert _ask(edge, site, link.issue("sign-in")) > 0
    for pair in (link.issue("gw-1"), link.issue("edge"), other.issue("sign-in")):
        assert _ask(edge, site, pair) == 0


def _ask(edge: Edge, site: Site, pair: KeyPair) -> int:
    """Return how many bytes Envoy sends to a server with a certificate. The request is a 503."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["h2"])
    authority.load_into(context, pair)
    content, attempts = bytearray(), 0

    def serve() -> None:
        nonlocal attempts
        with contextlib.suppress(OSError):
            while True:
                raw, _ = listening.accept()
                attempts += 1
                with raw, contextlib.suppress(OSError):
                    raw.settimeout(5)
                    with context.wrap_socket(raw, server_side=True) as secured:
                        content.extend(secured.recv(1 << 16))

    with socket.create_server(("127.0.0.1", PORTS[0])) as listening:
        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        assert edge.status(site.name, path="/one") == "503"
        until(lambda: attempts > 2)
        listening.shutdown(socket.SHUT_RDWR)
        serving.join(5)
    return len(content)
