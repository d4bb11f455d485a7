"""Edges of bytes, as rules: where they are live, where they lead, and what a change touches."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from chalicelib.model.edges.modules import UserAgentModule
from chalicelib.model.edges.served import ServedEdge
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.envoy.resources import Changes, Key
from edge.plan import edges, streams
from edge.plan.edges import PlannedHost
from edge.plan.record_index import Removed, Update
from edge.plan.streams import Destinations
from edge.process.settings import Settings
from edge.serving.serving import Serving
from edge.serving.standing import PlannedHostport, PlannedRoute
from tests.edge.plan.served import apply, serving, told
from tests.edge.plan.values import ANSWER, EDGE, GATEWAY, GROUP, HOST, NOW, A, B
from tests.edge.plan.worlds import authority, certificate, edge, group, response, route, tunnel, weighted

TLS, TCP = "edgtls_1", "edgtcp_1"
PORT, OWN = "tunnels.localhost:20001", "db.example.com:20001"
MINE = ServedReservation(A, "rd_1", "db.example.com", True)
WHOLE = 1_000_000_000
UNPROVED = "The account has not proved the domain: verify its reservation."
NO_AUTHORITY = "A certificate authority of mutual_tls does not exist."
OTHER_PORT = "No port is open: 80 is outside of TCP_PORTS, 20000 to 20099."
NO_PORT = "The account does not have the port: add a hostport at TUNNEL_DOMAIN with the same port."
ANOTHER = "Another edge of the account already has the port."
ONE_ROUTE = "TLS that ends upstream requires exactly one route, with the path_prefix /."


def tls(**more: Any) -> ServedEdge:
    return edge(**{"id": TLS, "backend": GROUP, **more})


def tcp(*hostports: str, **more: Any) -> ServedEdge:
    return edge(**{"id": TCP, "backend": GROUP, "hosts": hostports or (PORT,), **more})


def upstream(*routes: Any, **more: Any) -> ServedEdge:
    return edge(*(routes or (route(),)), place="upstream", **more)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (tls(), Destinations(((GROUP, WHOLE),))),
        (tls(backend=None), Destinations(refusal="The edge has no backend.")),
        (tls(backend="bkdtg_9"), Destinations(refusal="The backend has no tunnel group. bkdtg_9 does not exist.")),
        (tls(backend="bkdtg_b"), Destinations(refusal="The backend has no tunnel group. bkdtg_b does not exist.")),
        (
            tls(backend=ANSWER),
            Destinations(
                refusal="The backend has no tunnel group."
                " bkdhr_1 is an HTTP response: its share of connections is closed.",
            ),
        ),
        (
            tls(backend="bkdwd_1"),
            Destinations(
                ((ANSWER, 250_000_000), (GROUP, 750_000_000)),
                "bkdhr_1 is an HTTP response: its share of connections is closed.",
            ),
        ),
        (tcp(), Destinations(((GROUP, WHOLE),))),
        (
            tcp(unenforced=("traffic_policy",)),
            Destinations(refusal="Enabled, but not enforced by this version: traffic_policy."),
        ),
        (upstream(), Destinations(((GROUP, WHOLE),))),
        (upstream(route(backend=None)), Destinations(refusal="The route has no backend.")),
        (edge(place="upstream"), Destinations(refusal=ONE_ROUTE)),
        (upstream(route("/a")), Destinations(refusal=ONE_ROUTE)),
        (upstream(route(kind="exact_path")), Destinations(refusal=ONE_ROUTE)),
        (upstream(route(), route("/a", id="edghtsrt_2")), Destinations(refusal=ONE_ROUTE)),
        (
            upstream(route(agents=UserAgentModule(), unenforced=("oauth",)), authorities=["ca_1"]),
            Destinations(
                refusal="Enabled, but impossible with TLS that ends upstream: mutual_tls, oauth, user_agent_filter.",
            ),
        ),
    ],
)
def test_an_edge_leads_connections_to_groups_or_takes_none(made: ServedEdge, expected: Destinations) -> None:
    backends = [group(), group("bkdtg_b", account=B), response(), weighted("bkdwd_1", {GROUP: 3, ANSWER: 1})]
    assert streams.find_destinations(made, {it.id: it for it in backends}) == expected


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
def test_a_host_or_port_is_live_or_says_why_not(
    facts: tuple[Update, ...], id: str, host: str, expected: PlannedHost
) -> None:
    made = serving(group(), *facts)
    assert edges.plan_host(made.world.edges[id], host, made.world, NOW) == expected


def test_without_tcp_ports_no_port_of_an_edge_is_open() -> None:
    made = Serving(Settings(), "PEM")
    apply(made, group(), tcp())
    found = edges.plan_host(made.world.edges[TCP], PORT, made.world, NOW)
    assert found == PlannedHost(PORT, "refused", "No port is open: the operator has set no TCP_PORTS.")


ROUTED = {f"listener https[{HOST}]", f"routes operator[{HOST}]", f"cluster name/{HOST}"}
BASE = (GATEWAY, tunnel(), group(), response())


@pytest.mark.parametrize(
    ("facts", "change", "expected"),
    [
        (BASE, tls(), {*ROUTED, f"listener edge/{TLS}/operator", f"cluster stream/{TLS}"}),
        (BASE, upstream(), {*ROUTED, f"listener edge/{EDGE}/upstream", f"cluster stream/{EDGE}"}),
        (BASE, tcp(), {"listener port/20001", f"cluster stream/{TCP}"}),
        ((*BASE, tcp()), tunnel("tn_2"), {f"cluster stream/{TCP}"}),
        ((*BASE, tcp()), Removed("tn_1"), {f"cluster stream/{TCP}"}),
        ((*BASE, tcp()), Removed(TCP), {"-listener port/20001", f"-cluster stream/{TCP}"}),
        ((*BASE, tcp()), tcp(backend=None), {"-listener port/20001", f"-cluster stream/{TCP}"}),
        ((*BASE, tcp()), tcp("tunnels.localhost:20002"), {"-listener port/20001", "listener port/20002"}),
        (
            (*BASE, tcp(id="edgtcp_0"), tcp()),
            Removed("edgtcp_0"),
            {"listener port/20001", f"cluster stream/{TCP}", "-cluster stream/edgtcp_0"},
        ),
        ((*BASE, tls(), weighted("bkdwd_1", {GROUP: 1})), tls(backend="bkdwd_1"), set()),
        (
            (*BASE, tls(), weighted("bkdwd_1", {GROUP: 1})),
            tls(authorities=["ca_1"]),
            {f"-cluster name/{HOST}", f"-listener edge/{TLS}/operator", f"-cluster stream/{TLS}"},
        ),
        (
            (*BASE, tcp(backend="bkdwd_1"), group("bkdtg_2"), weighted("bkdwd_1", {GROUP: 1, "bkdtg_2": 1})),
            weighted("bkdwd_1", {GROUP: 9, "bkdtg_2": 1}),
            {f"cluster stream/{TCP}"},
        ),
        ((*BASE, tcp(OWN, PORT)), ServedReservation(A, "rd_1", "db.example.com", True), set()),
        (
            (*BASE, MINE, tcp(OWN, id="edgtcp_0")),
            tcp(),
            {"listener port/20001", "cluster stream/edgtcp_0"},
        ),
        (
            (*BASE, MINE, certificate("cert_1", "db.example.com")),
            tls(hosts=["db.example.com"]),
            {
                "listener https[db.example.com]",
                "routes operator[db.example.com]",
                "cluster name/db.example.com",
                f"listener edge/{TLS}/cert_1",
                f"cluster stream/{TLS}",
            },
        ),
        (
            (*BASE, tls()),
            Removed(GROUP),
            {f"-cluster name/{HOST}", f"-listener edge/{TLS}/operator", f"-cluster stream/{TLS}"},
        ),
    ],
)
def test_a_change_makes_anew_what_it_touches_alone(
    facts: tuple[Update, ...], change: Update, expected: set[str]
) -> None:
    made = serving(*facts)
    changes: Changes = made.update([change], NOW)
    for account in made.world.accounts():
        changes = {
            **changes,
            **made.update((), NOW, made.world.set_ready(account, made.world.hosts_of_account(account))),
        }
    assert told(changes) == expected


PASSED = tunnel("tn_2", name=HOST, proto="tls")
AT_PORT = tunnel("tn_2", name=PORT, proto="tcp")
WAYS = ("", "/http2", "/proxied", "/proxied/http2", "/bytes")  # to a gateway
OF_PASSED = {f"listener https[{HOST}]", f"routes operator[{HOST}]", f"cluster name/{HOST}", "listener tunnel/tn_2"}


@pytest.mark.parametrize(
    ("facts", "change", "expected"),
    [
        ((GATEWAY,), PASSED, OF_PASSED),
        ((GATEWAY, PASSED), Removed("tn_2"), {f"-{it}" for it in OF_PASSED}),
        (
            (GATEWAY, PASSED),
            replace(PASSED, id="tn_3"),
            {f"cluster name/{HOST}", "-listener tunnel/tn_2", "listener tunnel/tn_3"},
        ),
        ((GATEWAY,), AT_PORT, {"listener port/20001"}),
        ((GATEWAY, AT_PORT), Removed("tn_2"), {"-listener port/20001"}),
        (
            (GATEWAY, AT_PORT),
            Removed("gw-1"),
            {"-listener port/20001", *(f"-cluster gw-1{way}" for way in WAYS)},
        ),
        ((GATEWAY, AT_PORT), replace(AT_PORT, id="tn_3"), {"listener port/20001"}),
        ((GATEWAY, AT_PORT), replace(AT_PORT, id="tn_1"), set()),
        ((GATEWAY,), replace(AT_PORT, name="tunnels.localhost:80"), set()),
        ((GATEWAY, AT_PORT, group(), tunnel()), tcp(), {"listener port/20001", f"cluster stream/{TCP}"}),
        ((GATEWAY, AT_PORT), tcp(backend=None), {"-listener port/20001"}),
        ((GATEWAY, AT_PORT, tcp(backend=None)), Removed(TCP), {"listener port/20001"}),
    ],
)
def test_a_tunnel_of_tls_or_tcp_is_made_of_its_own_listener(
    facts: tuple[Update, ...], change: Update, expected: set[str]
) -> None:
    made = serving(*facts)
    if isinstance(change, ServedTunnel) and change.id != "tn_2":  # in the place of the one before
        changes = made.update([change, Removed("tn_2")], NOW) if change.id == "tn_3" else made.update([change], NOW)
    else:
        changes = made.update([change], NOW)
    assert told(changes) == expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [(False, False, ["live", "live"]), (True, True, ["live", "live"]), (True, False, ["live", "refused"])],
)
def test_all_hosts_of_an_edge_tell_who_visitors_are_or_none(first: bool, second: bool, expected: list[str]) -> None:
    hosts = [HOST, "b.tunnels.localhost"]
    held = [
        ServedReservation(A, f"rd_{host}", host, True, "", flag)
        for host, flag in zip(hosts, (first, second), strict=True)
    ]
    made = serving(*BASE, *held, tls(hosts=hosts))
    found = edges.make_plan(made.world.edges[TLS], made.world, NOW)
    assert ([it.state for it in found.hosts], found.is_proxied) == (expected, first)


def test_an_edge_of_tcp_tells_who_visitors_are_as_the_reserved_addresses_of_its_ports_say() -> None:
    made = serving(*BASE, MINE, replace(tcp(PORT, OWN), proxied=frozenset({PORT})))
    found = edges.make_plan(made.world.edges[TCP], made.world, NOW)
    assert ([it.state for it in found.hosts], found.is_proxied) == (["live", "live"], True)

    apply(made, replace(tcp(PORT, "tunnels.localhost:20002"), proxied=frozenset({PORT})))
    found = edges.make_plan(made.world.edges[TCP], made.world, NOW)
    assert ([it.state for it in found.hosts], found.is_proxied) == (["live", "refused"], True)


def test_a_group_that_streams_alone_lead_to_has_no_upstream_of_http() -> None:
    made = serving(*BASE, tcp())
    assert f"cluster group/{GROUP}" in told(made.update([edge(route())], NOW))
    assert f"-cluster group/{GROUP}" in told(made.update([Removed(EDGE)], NOW))
    assert told(made.update([tunnel("tn_2")], NOW)) == {f"cluster stream/{TCP}"}


def test_a_port_that_waits_for_the_proof_of_its_domain_is_live_with_it() -> None:
    made = serving(*BASE, tcp(OWN, PORT))
    apply(made, MINE)
    assert TCP not in made.take_changed_edges()
    made.update([Removed("rd_1")], NOW)
    assert made.take_changed_edges() == {TCP}


def test_how_edges_of_bytes_stand() -> None:
    made = serving(*BASE, tls(), tcp(OWN, PORT), upstream(hosts=["u.tunnels.localhost"]))
    found = {id: made.planned_status(id) for id in (TLS, TCP, EDGE)}
    stream: Mapping[str, Key] = {id: Key("cluster", f"stream/{id}") for id in found}
    assert all(it and it.backends == ((GROUP, 1),) for it in found.values())
    name, listener = Key("cluster", f"name/{HOST}"), Key("listener", f"edge/{TLS}/operator")
    secret, port = Key("secret", "operator"), Key("listener", "port/20001")
    assert [it and it.hostports for it in found.values()] == [
        (PlannedHostport(f"{HOST}:443", "live", keys=frozenset({name, listener, secret, stream[TLS]})),),
        (
            PlannedHostport(OWN, "unproved", UNPROVED),
            PlannedHostport(PORT, "live", keys=frozenset({port, stream[TCP]})),
        ),
        (
            PlannedHostport(
                "u.tunnels.localhost:443",
                "live",
                keys=frozenset(
                    {Key("cluster", "name/u.tunnels.localhost"), Key("listener", f"edge/{EDGE}/upstream"), stream[EDGE]}
                ),
            ),
        ),
    ]
    assert [it and it.routes for it in found.values()] == [
        (),
        (),
        (PlannedRoute("edghtsrt_1", "live", keys=frozenset({stream[EDGE]})),),
    ]


def test_what_was_led_without_mutual_tls_leads_nowhere_once_that_is_asked_for() -> None:
    made = serving(*BASE, authority(pem="PEM"), tls())
    first = told(made.update([tls(authorities=["ca_1"])], NOW))
    (now,) = [it for it in first if it.startswith(f"cluster stream/{TLS}/")]
    assert f"-cluster stream/{TLS}" in first

    second = told(made.update([authority(pem="ANOTHER")], NOW))
    (then,) = [it for it in second if it.startswith(f"cluster stream/{TLS}/")]
    assert (then != now, f"-{now}" in second) == (True, True)
