"""Edges that forward bytes, as rules: which hosts and ports are live, and their destinations."""

from dataclasses import replace
from typing import Any

import pytest

from chalicelib.model.edges.modules.traffic_policy import TrafficPolicyModule
from chalicelib.model.edges.modules.user_agent_filter import UserAgentModule
from chalicelib.model.edges.served import ServedEdge
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.serving import streams
from chalicelib.model.serving.account_view import Service
from chalicelib.model.serving.edge_plans import PlannedHost
from chalicelib.model.serving.streams import Destinations
from tests.edge.edge_modules import extended
from tests.edge.plan.worlds import (
    ANSWER,
    EDGE,
    GATEWAY,
    GROUP,
    HOST,
    A,
    B,
    Record,
    authority,
    certificate,
    edge,
    group,
    plan_of,
    response,
    route,
    tunnel,
    weighted,
)

TLS, TCP = "edgtls_1", "edgtcp_1"
PORT, OWN = "tunnels.localhost:20001", "db.example.com:20001"
MINE = ServedReservation(A, "rd_1", "db.example.com", True)
WHOLE = 1_000_000_000
UNPROVED = "The account has not proved the domain: verify its reservation."
NO_AUTHORITY = "A certificate authority that the module mutual_tls names does not exist."
OTHER_PORT = "The port is not open: 80 is outside of TCP_PORTS, 20000 to 20099."
NO_PORT = "The account does not own the port: add a hostport with this port below TUNNEL_DOMAIN."
ANOTHER = "Another edge of the account already has the port."
ONE_ROUTE = "If TLS ends upstream, the edge must have exactly one route, with the path_prefix /."


def tls(**more: Any) -> ServedEdge:
    return edge(**{"id": TLS, "backend": GROUP, **more})


def tcp(*hostports: str, **more: Any) -> ServedEdge:
    return edge(**{"id": TCP, "backend": GROUP, "hosts": hostports or (PORT,), **more})


def with_policy(value: str) -> ServedEdge:
    edge = tcp()
    return replace(edge, modules=extended(edge.modules, traffic_policy=TrafficPolicyModule(value=value)))


def upstream(*routes: Any, **more: Any) -> ServedEdge:
    return edge(*(routes or (route(),)), terminate_at="upstream", **more)


@pytest.mark.parametrize(
    ("served_edge", "expected"),
    [
        (tls(), Destinations(((GROUP, WHOLE),))),
        (tls(backend=None), Destinations(refusal="The edge has no backend.")),
        (
            tls(backend="bkdtg_9"),
            Destinations(
                refusal=(
                    "The backend contains no tunnel group, which connections need. The backend bkdtg_9 does not exist."
                )
            ),
        ),
        (
            tls(backend="bkdtg_b"),
            Destinations(
                refusal=(
                    "The backend contains no tunnel group, which connections need. The backend bkdtg_b does not exist."
                )
            ),
        ),
        (
            tls(backend=ANSWER),
            Destinations(
                refusal="The backend contains no tunnel group, which connections need. The backend bkdhr_1 is an HTTP "
                "response, so its share of the connections is closed: only an HTTPS route can use it.",
            ),
        ),
        (
            tls(backend="bkdwd_1"),
            Destinations(
                ((ANSWER, 250_000_000), (GROUP, 750_000_000)),
                "The backend bkdhr_1 is an HTTP response, so its share of the connections is closed: only an HTTPS "
                "route can use it.",
            ),
        ),
        (tcp(), Destinations(((GROUP, WHOLE),))),
        (
            tcp(unenforced=("traffic_policy",)),
            Destinations(refusal="The edge cannot enforce these enabled modules: traffic_policy."),
        ),
        (with_policy('{"inbound": []}'), Destinations(((GROUP, WHOLE),))),
        (
            with_policy('{"inbound": [{"actions": [{"type": "log"}]}]}'),
            Destinations(refusal="inbound[0].actions[0]: log is not supported by this version."),
        ),
        (upstream(), Destinations(((GROUP, WHOLE),))),
        (upstream(route(backend=None)), Destinations(refusal="The route has no backend.")),
        (edge(terminate_at="upstream"), Destinations(refusal=ONE_ROUTE)),
        (upstream(route("/a")), Destinations(refusal=ONE_ROUTE)),
        (upstream(route(kind="exact_path")), Destinations(refusal=ONE_ROUTE)),
        (upstream(route(), route("/a", id="edghtsrt_2")), Destinations(refusal=ONE_ROUTE)),
        (
            upstream(route(agents=UserAgentModule(), unenforced=("oauth",)), authorities=["ca_1"]),
            Destinations(
                refusal="If TLS ends upstream, these modules must not be enabled: "
                "mutual_tls, oauth, user_agent_filter.",
            ),
        ),
    ],
)
def test_connections_of_an_edge_go_to_groups_or_are_refused(served_edge: ServedEdge, expected: Destinations) -> None:
    backends = [group(), group("bkdtg_b", account=B), response(), weighted("bkdwd_1", {GROUP: 3, ANSWER: 1})]
    assert streams.find_destinations(served_edge, {backend.id: backend for backend in backends}) == expected


@pytest.mark.parametrize(
    ("facts", "id", "host", "expected"),
    [
        ((tls(),), TLS, HOST, PlannedHost(HOST, "live", "", "operator")),
        ((tls(), certificate("cert_1", HOST)), TLS, HOST, PlannedHost(HOST, "live", "", "cert_1")),
        ((tls(backend=None),), TLS, HOST, PlannedHost(HOST, "refused", "The edge has no backend.")),
        ((tls(authorities=["ca_1"]),), TLS, HOST, PlannedHost(HOST, "refused", NO_AUTHORITY)),
        ((tls(authorities=["ca_1"]), authority()), TLS, HOST, PlannedHost(HOST, "live", "", "operator")),
        ((tls(hosts=["a.example.com"]),), TLS, "a.example.com", PlannedHost("a.example.com", "unproved", UNPROVED)),
        ((upstream(),), EDGE, HOST, PlannedHost(HOST, "live")),
        ((upstream(route("/a")),), EDGE, HOST, PlannedHost(HOST, "refused", ONE_ROUTE)),
        ((tcp(),), TCP, PORT, PlannedHost(PORT, "live")),
        ((tcp(backend=None),), TCP, PORT, PlannedHost(PORT, "refused", "The edge has no backend.")),
        (
            (tcp("tunnels.localhost:80"),),
            TCP,
            "tunnels.localhost:80",
            PlannedHost("tunnels.localhost:80", "refused", OTHER_PORT),
        ),
        ((tcp(OWN),), TCP, OWN, PlannedHost(OWN, "unproved", UNPROVED)),
        ((tcp(OWN), MINE), TCP, OWN, PlannedHost(OWN, "refused", NO_PORT)),
        ((tcp(OWN, PORT), MINE), TCP, OWN, PlannedHost(OWN, "live")),
        ((tcp(OWN), MINE, tcp(id="edgtcp_b", account=B)), TCP, OWN, PlannedHost(OWN, "refused", NO_PORT)),
        ((tcp(id="edgtcp_0", backend=None), tcp()), TCP, PORT, PlannedHost(PORT, "refused", ANOTHER)),
        ((tcp(OWN, id="edgtcp_0"), tcp()), TCP, PORT, PlannedHost(PORT, "live")),
    ],
)
def test_a_host_or_port_is_live_or_the_error_says_why_not(
    facts: tuple[Record, ...], id: str, host: str, expected: PlannedHost
) -> None:
    assert [host_state for host_state in plan_of(id, group(), *facts).hosts if host_state.name == host] == [expected]


def test_without_tcp_ports_no_port_of_an_edge_is_open() -> None:
    plan = plan_of(TCP, group(), tcp(), service=Service("tunnels.localhost"))
    assert plan.hosts == (PlannedHost(PORT, "refused", "No port is open: the operator has set no TCP_PORTS."),)


BASE = (GATEWAY, tunnel(), group(), response())


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [(False, False, ["live", "live"]), (True, True, ["live", "live"]), (True, False, ["live", "refused"])],
)
def test_all_hosts_of_an_edge_use_the_proxy_protocol_or_none(first: bool, second: bool, expected: list[str]) -> None:
    hosts = [HOST, "b.tunnels.localhost"]
    reserved = [
        ServedReservation(A, f"rd_{host}", host, True, "", flag)
        for host, flag in zip(hosts, (first, second), strict=True)
    ]
    plan = plan_of(TLS, *BASE, *reserved, tls(hosts=hosts))
    assert ([host.state for host in plan.hosts], plan.is_proxied) == (expected, first)


@pytest.mark.parametrize(
    ("ports", "expected"),
    [((PORT, OWN), ["live", "live"]), ((PORT, "tunnels.localhost:20002"), ["live", "refused"])],
)
def test_the_reserved_addresses_of_a_tcp_edge_decide_about_the_proxy_protocol(
    ports: tuple[str, ...], expected: list[str]
) -> None:
    plan = plan_of(TCP, *BASE, MINE, replace(tcp(*ports), proxied=frozenset({PORT})))
    assert ([host.state for host in plan.hosts], plan.is_proxied) == (expected, True)
