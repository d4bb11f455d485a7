"""Bytes: ports, TLS edges, and TLS that is passed through, with certificates on demand where TLS ends."""

import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from chalicelib.model.edges.served import ServedEdge
from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.serving.account_view import AccountView, Service
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.control.special import EnvoyPublisher
from edge.envoy.resources import Changes
from edge.link.proxy_protocol import Header
from edge.plan import names
from edge.plan.names import NamePlan
from edge.serving.special_plans import SpecialPlans
from edge.serving.special_serving import SpecialServing
from tests.conftest import free_port
from tests.edge.plan import worlds
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.ondemand.gateways import gateway
from tests.live.edge.ondemand.tables import GATEWAY, A, Table, ask, running
from tests.live.edge.running import until

pytestmark = needs_envoy
GROUP, HOST, CLOSED = "bkdtg_1", "bytes.tunnels.localhost", "closed.tunnels.localhost"


class Bytes:
    """The special names of one account whose tunnels one gateway has."""

    def __init__(self, table: Table) -> None:
        self.table, self.port = table, free_port()
        self.service = Service("tunnels.localhost", range(self.port, self.port + 1), frozenset())
        self._serving = SpecialServing(table.settings, table.link.pem)
        self._publisher = EnvoyPublisher(table.discovery, table.sender)

    def serve(self, *records: ServedEdge | ServedTunnel) -> None:
        """Replace the edges and tunnels of the account."""
        edges = {record.id: record for record in records if isinstance(record, ServedEdge)}
        tunnels = {record.id: record for record in records if isinstance(record, ServedTunnel)}
        account_records = AccountRecords(
            A,
            frozenset(),
            edges=edges,
            tunnels=tunnels,
            gateways=self.table.records.gateways,
            backends={GROUP: worlds.group(GROUP)},
        )
        now = datetime.now(UTC)
        plans = tuple(
            edge_plan for id in edges if (edge_plan := names.plan_edge(id, account_records, now, self.service))
        )
        passthrough = names.plan_names([HOST], account_records, now, self.service)[HOST]
        port = names.plan_port(str(self.port), account_records, now, self.service)
        special = SpecialPlans(plans, (passthrough,) if passthrough.site else (), (port,))
        view = AccountView(account_records, self.service)
        for plan in plans:
            for host in plan.hosts:
                self.table.serve(NamePlan(host.name, A, host.certificate, edge=plan))
        self.table.run(self._publisher.hold("Special/a", self._serving.build_clusters(special, view)))
        self.publish(self._serving.update(special, view))

    def close(self, host: str) -> None:
        """Serve nothing, and close a host."""
        view = AccountView(AccountRecords(A, frozenset()), self.service)
        self.publish(self._serving.update(SpecialPlans(closed=frozenset({host})), view))
        until(lambda: self.table.discovery.is_settled)

    def publish(self, changes: Changes) -> None:
        self.table.run(self._publisher.publish(changes))

    def block(self, *networks: str) -> None:
        self.publish(self._serving.block(networks, []))

    def visit_port(self) -> str:
        """Return which tunnel answers at the port, "" if the connection is refused or closed."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 5) as connection:
                connection.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
                connection.settimeout(5)
                return connection.recv(1000).decode().partition("\r\n\r\n")[2].partition("\n")[0]
        except OSError:
            return ""


@pytest.fixture(scope="module")
def special_bytes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bytes]:
    with running(tmp_path_factory.mktemp("edge")) as table:
        yield Bytes(table)


@pytest.fixture(scope="module")
def visitors(special_bytes: Bytes) -> Iterator[list[Header | None]]:
    with gateway(special_bytes.table) as port:
        yield port


def tunnel(id: str, name: str, proto: str) -> ServedTunnel:
    return replace(worlds.tunnel(id, gateway=GATEWAY, name=name), proto=proto)  # type: ignore[arg-type]


def test_a_port_is_open_while_a_tunnel_has_it(special_bytes: Bytes, visitors: list[Header | None]) -> None:
    assert special_bytes.visit_port() == ""
    special_bytes.serve(tunnel("tn_port", f"tunnels.localhost:{special_bytes.port}", "tcp"))
    until(lambda: special_bytes.visit_port() == "tn_port", within=5)
    special_bytes.serve()
    until(lambda: special_bytes.visit_port() == "", within=5)


def test_a_blocked_network_cannot_connect_to_a_port(special_bytes: Bytes, visitors: list[Header | None]) -> None:
    special_bytes.serve(tunnel("tn_port", f"tunnels.localhost:{special_bytes.port}", "tcp"))
    until(lambda: special_bytes.visit_port() == "tn_port", within=5)
    special_bytes.block("127.0.0.0/8")
    until(lambda: special_bytes.visit_port() == "", within=5)
    special_bytes.block()
    until(lambda: special_bytes.visit_port() == "tn_port", within=5)


def test_a_tls_edge_ends_tls_with_a_certificate_on_demand(special_bytes: Bytes, visitors: list[Header | None]) -> None:
    edge = worlds.edge(id="edgtls_1", hosts=("tls.tunnels.localhost",), backend=GROUP)
    special_bytes.serve(edge, worlds.tunnel("tn_member", gateway=GATEWAY))
    with special_bytes.table.connect("tls.tunnels.localhost") as connection:
        status, body = ask(connection, "any.example.com")
    assert (status, body.partition("\n")[0]) == (200, "tn_member")
    assert special_bytes.table.requests["tls.tunnels.localhost"] == 1


def test_tls_that_is_passed_through_requests_no_certificate(
    special_bytes: Bytes, visitors: list[Header | None]
) -> None:
    special_bytes.serve(tunnel("tn_tls", HOST, "tls"))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname=HOST)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    hello, before = outgoing.read(), len(visitors)
    with socket.create_connection(("127.0.0.1", special_bytes.table.settings.edge_port), 5) as connection:
        connection.sendall(hello)
        until(lambda: len(visitors) == before + 1, within=5)
    assert special_bytes.table.requests[HOST] == 0


def test_the_connections_of_a_closed_name_end_at_once(special_bytes: Bytes) -> None:
    special_bytes.close(CLOSED)
    start = time.monotonic()
    with pytest.raises((ssl.SSLEOFError, ConnectionResetError)):
        special_bytes.table.connect(CLOSED)
    assert time.monotonic() < start + 2
    assert special_bytes.table.requests[CLOSED] == 0
