"""Visitors that IP policies admit and refuse, through a real Envoy."""

import contextlib
import importlib
import json
import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from chalicelib import ids
from chalicelib.model.edges.backends import HttpResponse, TunnelGroup
from chalicelib.model.edges.ip_policies import Rules, ServedPolicy, parse_cidr
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.modules.ip_restriction import IpRestrictionModule
from chalicelib.model.edges.served import ServedBackend, ServedEdge, ServedRoute
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.serving.sites import ServedAddress
from edge.envoy import http_manager, listeners, parts, v3
from edge.envoy.filters import policy_matchers, proxies, visitor_addresses
from edge.link.proxy_protocol import Header
from edge.process.envoy_process.envoy_parent import ENVOY_ARGUMENTS
from edge.process.settings import Settings
from tests.edge import case_counts, drawn_restrictions
from tests.edge.drawn_restrictions import VISITORS, DrawnModules
from tests.edge.edge_modules import enabled
from tests.edge.envoy import messages
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.greetings import Server, connect, echoes, is_greeted
from tests.live.edge.running import ENVOY, Edge, Ssh, free_ports, listens, until

pytestmark = needs_envoy
ACCOUNT = "acct_A"
COUNT = case_counts.at_least(40)  # random configurations
PORTS = 15  # of them also decide about byte connections
_GREETING = importlib.import_module("envoy.extensions.filters.network.direct_response.v3.config_pb2")
_TRUSTING = Settings(proxy_protocol_from=("127.0.0.0/8",))


def test_envoy_admits_the_visitors_that_random_policies_admit() -> None:
    chance = Random(int(os.environ.get("SEED", "1")))
    cases = [drawn_restrictions.draw(chance) for _ in range(COUNT)]
    with serving(cases) as (http, *ports):
        for visitor in VISITORS:
            assert _list_statuses(http, visitor, COUNT) == [
                200 if policy.admits(visitor) else 403 for policy in cases
            ], visitor
            for modules, port in zip(cases, ports, strict=False):
                assert _is_greeted(port, visitor) == modules.admits(visitor), (modules, visitor)


def test_open_connections_obey_changes_and_headers_decide_nothing(edge: Edge) -> None:
    answer = ServedBackend(ACCOUNT, ids.new("bkdhr"), HttpResponse(body="welcome"))
    own_rules, other_rules = (Rules(allow=(parse_cidr(network),)) for network in ("127.0.0.0/8", "192.0.2.0/24"))
    policy, of_edge = (ServedPolicy(ACCOUNT, ids.new("ipp"), rules) for rules in (own_rules, own_rules))
    for value in (answer, policy, of_edge):
        edge.store.keep(value)
    restricted, everywhere = (IpRestrictionModule(ip_policy_ids=[policy.id]) for policy in (policy, of_edge))
    to_answer = BackendModule(backend_id=answer.id)
    routes = (
        ServedRoute(ids.new("edghtsrt"), "path_prefix", "/", enabled(to_answer)),
        ServedRoute(ids.new("edghtsrt"), "path_prefix", "/inner", enabled(to_answer, ip_restriction=restricted)),
    )
    hosts = (f"restricted.{edge.settings.tunnel_domain}:443",)
    served_edge = ServedEdge(
        ACCOUNT, ids.new("edghts"), 1, hosts, modules=enabled(ip_restriction=everywhere), routes=routes
    )
    edge.store.keep(served_edge)
    until(lambda: edge.status("restricted", path="/inner") == "200")

    edge.store.keep(replace(policy, rules=other_rules))
    until(lambda: edge.status("restricted", path="/inner") == "403")
    assert edge.status("restricted", path="/") == "200"
    claims = ("X-Forwarded-For", "X-Real-IP", "X-Envoy-External-Address", "True-Client-IP", "CF-Connecting-IP")
    headers = [argument for name in claims for argument in ("-H", f"{name}: 192.0.2.1")]
    headers += ["-H", "Forwarded: for=192.0.2.1"]
    for path in (
        "/inner",
        "/inner/",
        "/inner/..",
        "/inner?a",
        "/inner//",
        "/./inner",
        "/%69nner",
        "//inner",
        "/a/../inner",
    ):
        for version in ("--http1.1", "--http2"):
            assert edge.status("restricted", version, "--path-as-is", *headers, path=path) in ("400", "403"), path

    edge.store.keep(replace(of_edge, rules=Rules()))
    until(lambda: edge.status("restricted", path="/") == "403")
    edge.store.keep(replace(of_edge, rules=None))
    edge.store.keep(replace(policy, rules=own_rules))
    edge.store.keep(replace(of_edge, rules=own_rules))
    until(lambda: edge.status("restricted", path="/inner") == "200")
    edge.store.forget(of_edge)
    until(lambda: edge.status("restricted", path="/inner") == "403")


def test_byte_edges_close_a_connection_before_a_byte(edge: Edge) -> None:
    with contextlib.closing(Server()) as server:
        group = ServedBackend(ACCOUNT, ids.new("bkdtg"), TunnelGroup(labels={"app": "bytes"}))
        own_networks = (parse_cidr("127.0.0.0/8"),)
        policy = ServedPolicy(ACCOUNT, ids.new("ipp"), Rules(own_networks))
        edge.store.keep(group)
        edge.store.keep(policy)
        edge.ssh(edge.key(ACCOUNT), "-R", f"app=bytes:80:127.0.0.1:{server.port}").wait_for("is online")
        restriction = IpRestrictionModule(ip_policy_ids=[policy.id])
        modules = enabled(BackendModule(backend_id=group.id), ip_restriction=restriction)
        port, host = edge.settings.tcp_ports[7], f"bytes.{edge.settings.tunnel_domain}:443"
        for kind, name in (("edgtcp", edge.settings.address(port)), ("edgtls", host)):
            edge.store.keep(ServedEdge(ACCOUNT, ids.new(kind), 1, (name,), modules=modules))
        until(lambda: is_greeted(port, "127.0.0.2") and _tls_greeting(edge) == b"welcome")

        with connect(port, "127.0.0.2") as before:
            edge.store.keep(replace(policy, rules=Rules(own_networks, (parse_cidr("::ffff:127.0.0.1"),))))
            until(lambda: not is_greeted(port, "127.0.0.1") and _tls_greeting(edge) == b"")
            count_before = server.accepted
            assert [is_greeted(port, "127.0.0.1", first) for first in (b"", b"hello")] == [False, False]
            assert [_tls_greeting(edge) for _ in range(5)] == [b""] * 5
            assert server.accepted == count_before
            assert is_greeted(port, "127.0.0.2")
            edge.store.forget(policy)
            until(lambda: not is_greeted(port, "127.0.0.2"))
            assert echoes(before)


def test_tunnels_obey_the_policies_of_reserved_names(edge: Edge, origin: int) -> None:
    own_rules, other_rules = (Rules(allow=(parse_cidr(network),)) for network in ("127.0.0.0/8", "192.0.2.0/24"))
    policy = ServedPolicy(ACCOUNT, ids.new("ipp"), own_rules)
    edge.store.keep(policy)
    edge.ssh(edge.key(ACCOUNT), "-R", f"held:80:127.0.0.1:{origin}", "-R", f"free:80:127.0.0.1:{origin}")
    until(lambda: edge.status("held") == edge.status("free") == "200")
    modules = {"ip_restriction": {"ip_policy_ids": [policy.id]}}
    name = f"held.{edge.settings.tunnel_domain}"
    reservation = ServedReservation(ACCOUNT, ids.new("rd"), name, True, modules=modules)
    claims = ["-H", "X-Forwarded-For: 192.0.2.1", "-H", "Forwarded: for=192.0.2.1", "-H", "X-Real-IP: 192.0.2.1"]

    edge.store.reserve(reservation)
    edge.settle()
    assert edge.status("held") == "200"
    edge.store.keep(replace(policy, rules=other_rules))
    until(lambda: edge.status("held") == "403")
    for version in ("--http1.1", "--http2"):
        assert edge.status("held", version, *claims) == "403"
    grpc = edge.curl("held", "--http2", "-D", "-", "-H", "content-type: application/grpc")
    assert "grpc-status: 7" in grpc  # PERMISSION_DENIED
    other_host = ["-H", f"Host: free.{edge.settings.tunnel_domain}"]
    assert edge.status("held", *other_host) == "421"
    assert edge.status("free") == "200"

    edge.store.keep(replace(policy, rules=Rules()))
    edge.settle()
    assert edge.status("held") == "403"
    edge.store.keep(policy)
    until(lambda: edge.status("held") == "200")
    edge.store.forget(policy)
    until(lambda: edge.status("held") == "403")
    edge.store.reserve(replace(reservation, modules={}))
    until(lambda: edge.status("held") == "200")
    edge.store.reserve(replace(reservation, modules={"ip_restriction": "malformed"}))
    until(lambda: edge.status("held") == "403")


def test_plain_ssh_names_the_policies_of_its_tunnels(edge: Edge, origin: int) -> None:
    own_rules, other_rules = (Rules(allow=(parse_cidr(network),)) for network in ("127.0.0.0/8", "192.0.2.0/24"))
    open_to, closed = (ServedPolicy(ACCOUNT, ids.new("ipp"), rules) for rules in (own_rules, other_rules))
    foreign = ServedPolicy("acct_B", ids.new("ipp"), own_rules)
    for policy in (open_to, closed, foreign):
        edge.store.keep(policy)
    key = edge.key(ACCOUNT)

    def start(name: str, *policy_ids: str, terminal: str = "-tt") -> Ssh:
        value = f"SetEnv=TUNNEL_IP_POLICIES={','.join(policy_ids)}"
        return edge.ssh(key, "-o", value, "-R", f"{name}:80:127.0.0.1:{origin}", terminal=terminal)

    start("shut", closed.id).wait_for("is online")
    start("shown", open_to.id, terminal="-T").wait_for("is online")
    edge.ssh(key, "-R", f"bare:80:127.0.0.1:{origin}", terminal="-N")
    until(lambda: edge.status("shown") == edge.status("bare") == "200")
    assert edge.status("shut") == "403"
    policies_by_name = {tunnel.name.partition(".")[0]: tunnel.ip_policies for tunnel, _ in edge.store.tunnels()}
    assert [policies_by_name[name] for name in ("shut", "shown", "bare")] == [(closed.id,), (open_to.id,), ()]
    for policy_id in (foreign.id, ids.new("ipp")):
        start("refused", open_to.id, policy_id).wait_for(
            "TUNNEL_IP_POLICIES names a policy that your account does not have"
        )
    start("refused", "office").wait_for("must be ids of IP policies")
    assert "refused" not in {tunnel.name.partition(".")[0] for tunnel, _ in edge.store.tunnels()}

    edge.store.keep(replace(open_to, rules=other_rules))
    until(lambda: edge.status("shown") == "403")
    edge.store.keep(replace(closed, rules=own_rules))
    until(lambda: edge.status("shut") == "200")
    name = f"shut.{edge.settings.tunnel_domain}"
    modules = {"ip_restriction": {"ip_policy_ids": [open_to.id]}}
    edge.store.reserve(ServedReservation(ACCOUNT, ids.new("rd"), name, True, modules=modules))
    until(lambda: edge.status("shut") == "403")  # the policies of the client and of the reservation both decide


def test_byte_tunnels_close_a_connection_before_a_byte(edge: Edge) -> None:
    with contextlib.closing(Server()) as server:
        ours = (parse_cidr("127.0.0.0/8"),)
        policy = ServedPolicy(ACCOUNT, ids.new("ipp"), Rules(ours))
        edge.store.keep(policy)
        port, name = edge.settings.tcp_ports[8], f"passed.{edge.settings.tunnel_domain}"
        modules = {"ip_restriction": {"ip_policy_ids": [policy.id]}}
        edge.store.reserve(ServedReservation(ACCOUNT, ids.new("rd"), name, True, modules=modules))
        edge.store.reserve_address(ACCOUNT, edge.settings.address(port), ServedAddress(False, modules))
        forwarded = ("-R", f"{port}:127.0.0.1:{server.port}", "-R", f"passed:443:127.0.0.1:{server.port}")
        edge.ssh(edge.key(ACCOUNT), *forwarded).wait_for("is online")
        until(lambda: is_greeted(port, "127.0.0.2") and _reaches(edge, server))

        with connect(port, "127.0.0.2") as before:
            edge.store.keep(replace(policy, rules=Rules(ours, (parse_cidr("::ffff:127.0.0.1"),))))
            until(lambda: not is_greeted(port, "127.0.0.1") and not _reaches(edge, server))
            count_before = server.accepted
            assert [is_greeted(port, "127.0.0.1", first) for first in (b"", b"hello")] == [False, False]
            assert not any(_reaches(edge, server) for _ in range(5))
            assert server.accepted == count_before
            assert is_greeted(port, "127.0.0.2")
            edge.store.forget(policy)
            until(lambda: not is_greeted(port, "127.0.0.2"))
            assert echoes(before)


def _reaches(edge: Edge, server: Server) -> bool:
    """Return whether a handshake with the name that passes TLS on reaches the upstream, which does not speak TLS."""
    count_before = server.accepted
    with contextlib.suppress(OSError), edge.connect("passed"):
        pass
    return server.accepted > count_before


def _tls_greeting(edge: Edge) -> bytes:
    """Return what the upstream of the TLS edge sends first, nothing if the handshake is refused."""
    with contextlib.suppress(OSError), edge.connect("bytes") as connection:
        return connection.recv(7)
    return b""


@contextlib.contextmanager
def serving(cases: Sequence[DrawnModules]) -> Iterator[Sequence[int]]:
    """Run an Envoy with a route for each module, and ports for some. Its clients are trusted proxies."""
    http, *ports = free_ports(1 + min(PORTS, len(cases)))
    listeners = [_http_listener(cases, http)]
    listeners += [_port_listener(modules, port) for modules, port in zip(cases, ports, strict=False)]
    with TemporaryDirectory() as folder:
        file = Path(folder, "bootstrap.json")
        file.write_text(json.dumps({"static_resources": {"listeners": listeners}}))
        command = [str(ENVOY), *ENVOY_ARGUMENTS, "--concurrency", "1"]
        with subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL) as envoy:
            try:
                until(lambda: all(map(listens, (http, *ports))))
                yield http, *ports
            finally:
                envoy.kill()


def _http_listener(cases: Sequence[DrawnModules], port: int) -> Any:
    config = v3.RouteConfiguration(name="all")
    host = config.virtual_hosts.add(name="all", domains=["*"])
    for number, modules in enumerate(cases):
        route = host.routes.add(
            match=v3.RouteMatch(path=f"/{number}"), direct_response=v3.DirectResponseAction(status=200)
        )
        visitor_addresses.restrict(route, modules.refusals)
    manager = http_manager.build_manager(Settings(), visitor_addresses.FILTER, http_manager.ROUTER)
    del manager.http_filters[:2]  # the limits of a visitor and the blocked networks, which control sends
    manager.stat_prefix = "http"
    manager.route_config.CopyFrom(config)
    listener = v3.Listener(name="http", address=parts.address("127.0.0.1", port))
    listener.listener_filters.append(proxies.PROXY_PROTOCOL)
    listener.filter_chains.add(filters=[v3.Filter(name=http_manager.NAME, typed_config=parts.pack(manager))])
    return messages.to_json(listener)


def _port_listener(modules: DrawnModules, port: int) -> Any:
    config = parts.pack(_GREETING.Config(response=parts.text("welcome")))
    greeting = v3.Filter(name="envoy.filters.network.direct_response", typed_config=config)
    matcher = policy_matchers.build_matcher(modules.refusals, port, "")
    return messages.decode(listeners.build_port_listener(str(port), [greeting], _TRUSTING, matcher=matcher))


def _header(visitor: str) -> bytes:
    return Header((visitor, 4711), ("::1" if ":" in visitor else "10.9.9.9", 443)).encoded()


def _list_statuses(port: int, visitor: str, count: int) -> list[int]:
    """Return the statuses of one request for each configuration, on one connection of a visitor."""
    statuses = []
    with socket.create_connection(("127.0.0.1", port), 5) as connection, connection.makefile("rb") as answers:
        connection.sendall(_header(visitor))
        for number in range(count):
            claims = "x-forwarded-for: 10.0.0.1\r\nforwarded: for=10.0.0.1"
            connection.sendall(f"GET /{number} HTTP/1.1\r\nhost: a\r\n{claims}\r\n\r\n".encode())
            statuses.append(int(answers.readline().split()[1]))
            length = 0
            while (line := answers.readline().strip()) != b"":
                length = int(line.partition(b":")[2]) if line.lower().startswith(b"content-length:") else length
            answers.read(length)
    return statuses


def _is_greeted(port: int, visitor: str) -> bool:
    """Return whether a visitor is greeted, or closed without a byte."""
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(_header(visitor))
        with contextlib.suppress(ConnectionResetError):
            read = connection.recv(100)
            assert read in (b"", b"welcome")
            return bool(read)
    return False
