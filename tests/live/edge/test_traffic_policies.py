"""Which connections a port of a TCP edge accepts, by its traffic policy, through a real Envoy."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from chalicelib import ids
from chalicelib.model.edges.backends import TunnelGroup
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.modules.traffic_policy import TrafficPolicyModule
from chalicelib.model.edges.served import Modules, ServedBackend, ServedEdge
from edge.link.proxy_protocol import Header
from tests.edge.edge_modules import enabled, extended
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.greetings import Server, connect, echoes, is_greeted
from tests.live.edge.running import ENVOY, Edge, running, until

ACCOUNT = "acct_policies"
FIRST_SOURCE, SECOND_SOURCE = "127.0.0.2", "127.0.0.3"
DENY = {"type": "deny"}
SPEED = 2  # seconds until new connections obey a change
pytestmark = needs_envoy


class Port:
    """A TCP edge at one or two ports, whose policy changes."""

    def __init__(self, edge: Edge, server: Server, *ports: int) -> None:
        self.edge, self.server, self.ports = edge, server, ports
        app = f"app{ports[0]}"
        group = ServedBackend(ACCOUNT, ids.new("bkdtg"), TunnelGroup(labels={"app": app}))
        edge.store.keep(group)
        edge.ssh(edge.key(ACCOUNT), "-R", f"app={app}:80:127.0.0.1:{server.port}").wait_for("is online")
        names = tuple(edge.settings.address(port) for port in ports)
        modules = enabled(BackendModule(backend_id=group.id))
        self._served_edge = ServedEdge(ACCOUNT, ids.new("edgtcp"), 0, names, modules=modules)

    def obey(self, *rules: Any, **document: Any) -> None:
        """Replace the policy."""
        value = json.dumps({"inbound": rules, **document})
        policy = TrafficPolicyModule(value=value)
        self._keep(extended(self._served_edge.modules, traffic_policy=policy))

    def open(self) -> None:
        """Remove the policy."""
        self._keep(extended(self._served_edge.modules, traffic_policy=None))

    def _keep(self, modules: Modules) -> None:
        self._served_edge = replace(self._served_edge, revision=self._served_edge.revision + 1, modules=modules)
        self.edge.store.keep(self._served_edge)

    def admits(self, *sources: str, port: int = 0, first: bytes = b"") -> list[bool]:
        return [is_greeted(port or self.ports[0], source, first) for source in sources]


def from_one(*actions: Any) -> dict[str, Any]:
    return {"expressions": [f"conn.client_ip == '{FIRST_SOURCE}'"], "actions": actions or [DENY]}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with contextlib.closing(Server()) as server:
        yield server


NUMBERS = count()


@pytest.fixture
def port(edge: Edge, server: Server) -> Port:
    port = Port(edge, server, edge.settings.tcp_ports[next(NUMBERS)])
    port.open()
    until(lambda: port.admits(FIRST_SOURCE, SECOND_SOURCE) == [True, True])
    return port


def test_a_rejected_client_gets_no_byte_and_the_backend_sees_no_connection(port: Port) -> None:
    port.obey(from_one())
    until(lambda: port.admits(FIRST_SOURCE) == [False], within=SPEED)
    before = port.server.accepted
    assert port.admits(*[FIRST_SOURCE] * 20) == [False] * 20
    assert port.admits(*[FIRST_SOURCE] * 20, first=b"hello") == [False] * 20
    assert port.admits(SECOND_SOURCE) == [True]
    assert port.server.accepted == before + 1


def test_new_connections_obey_each_change_within_two_seconds_and_open_ones_continue(port: Port) -> None:
    with connect(port.ports[0], FIRST_SOURCE) as first, connect(port.ports[0], SECOND_SOURCE) as second:
        for _ in range(3):
            port.obey(from_one())
            until(lambda: port.admits(FIRST_SOURCE, SECOND_SOURCE) == [False, True], within=SPEED)
            port.obey({"actions": [{"type": "restrict-ips", "config": {"allow": [f"{FIRST_SOURCE}/32"]}}]})
            until(lambda: port.admits(FIRST_SOURCE, SECOND_SOURCE) == [True, False], within=SPEED)
            port.obey({"actions": [DENY]})
            until(lambda: port.admits(FIRST_SOURCE, SECOND_SOURCE) == [False, False], within=SPEED)
            port.open()
            until(lambda: port.admits(FIRST_SOURCE, SECOND_SOURCE) == [True, True], within=SPEED)
            assert echoes(first)
            assert echoes(second)


def test_a_policy_outside_of_the_grammar_closes_the_port_until_it_is_corrected(port: Port) -> None:
    with connect(port.ports[0], SECOND_SOURCE) as before:
        port.obey(from_one(), {"expressions": ["true", "conn.geo.country_code == 'DE'"], "actions": [DENY]})
        until(lambda: port.admits(FIRST_SOURCE, SECOND_SOURCE) == [False, False], within=SPEED)
        port.obey(from_one())
        until(lambda: port.admits(FIRST_SOURCE, SECOND_SOURCE) == [False, True], within=SPEED)
        assert echoes(before)


def test_a_rule_can_be_about_the_port_and_the_region(edge: Edge, server: Server) -> None:
    first, second = edge.settings.tcp_ports[-2:]
    port = Port(edge, server, first, second)
    about = f"conn.server_port == {second} && conn.server_region == '{edge.settings.region}'"
    port.obey({"expressions": [about], "actions": [DENY]}, from_one())
    until(lambda: port.admits(SECOND_SOURCE) == [True])
    assert port.admits(FIRST_SOURCE, SECOND_SOURCE) == [False, True]
    assert port.admits(FIRST_SOURCE, SECOND_SOURCE, port=second) == [False, False]


def test_a_blocked_network_stays_blocked_if_a_policy_admits_it(port: Port) -> None:
    port.edge.store.block(f"{SECOND_SOURCE}/32")
    try:
        until(
            lambda: port.admits(*[SECOND_SOURCE] * 5) == [False] * 5, within=5
        )  # one can fail because a listener is replaced
        port.obey({"actions": [{"type": "restrict-ips", "config": {"allow": [FIRST_SOURCE, SECOND_SOURCE]}}]})
        until(lambda: port.admits("127.0.0.4") == [False], within=SPEED)
        assert port.admits(FIRST_SOURCE, SECOND_SOURCE) == [True, False]
    finally:
        port.edge.store.block()
    until(lambda: port.admits(FIRST_SOURCE, SECOND_SOURCE) == [True, True], within=5)


def test_behind_a_trusted_proxy_the_address_is_what_the_proxy_states(
    tmp_path_factory: pytest.TempPathFactory, server: Server
) -> None:
    def visit(port: Port, visitor: str) -> bool:
        first = Header((visitor, 4711), ("::1" if ":" in visitor else "198.51.100.1", 443)).encoded()
        return port.admits(FIRST_SOURCE, first=first) == [True]

    with running(tmp_path_factory.mktemp("edge"), with_envoy=ENVOY is not None, believed=f"{FIRST_SOURCE}/32") as edge:
        port = Port(edge, server, edge.settings.tcp_ports[0])
        port.obey({"actions": [{"type": "restrict-ips", "config": {"allow": ["203.0.113.0/24", "2001:db8::/32"]}}]})
        until(lambda: visit(port, "203.0.113.7"))
        before = server.accepted
        visitors = [
            "2001:db8::1",
            "::ffff:203.0.113.9",
            "203.0.114.1",
            "2001:db9::1",
            "::ffff:203.0.114.1",
            FIRST_SOURCE,
        ]
        assert [visit(port, visitor) for visitor in visitors] == [True, True, False, False, False, False]
        assert port.admits(SECOND_SOURCE, first=Header(("203.0.113.7", 1), ("198.51.100.1", 443)).encoded()) == [False]
        assert server.accepted == before + 2
