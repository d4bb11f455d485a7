"""The states of hostports and routes, as a table."""

from dataclasses import replace

import pytest

from chalicelib.model.edges.served import UNREADABLE, ServedAuthority, ServedEdge, ServedRoute
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.serving import states
from chalicelib.model.serving.states import HostFacts, HostState, RouteState
from tests.edge.plan.worlds import A, edge, route

HOST = "a.example.com"
FACTS = HostFacts(HOST, True, certificate="cert_1", is_covered=True)
MUTUAL = edge(authorities=["ca_1"])


@pytest.mark.parametrize(
    ("served", "facts", "expected"),
    [
        (edge(), FACTS, HostState("live", "", "cert_1")),
        (edge(), replace(FACTS, error="a problem"), HostState("live", "a problem", "cert_1")),
        (
            edge(),
            replace(FACTS, certificate_error="no"),
            HostState("live", "Envoy rejected a certificate: no", "cert_1"),
        ),
        (
            edge(),
            replace(FACTS, is_allowed=False, refusal="no"),
            HostState("unproved", "The account has not proved the domain: verify its reservation."),
        ),
        (replace(edge(), error=UNREADABLE), FACTS, HostState("refused", UNREADABLE)),
        (edge(), replace(FACTS, port_error="no port", refusal="no"), HostState("refused", "no port")),
        (edge(), replace(FACTS, refusal="no group"), HostState("refused", "no group")),
        (
            edge(),
            replace(FACTS, reservation=ServedReservation(A, "rd_1", HOST, True, is_readable=False)),
            HostState("refused", "The stored reservation of the host is malformed: contact the operator."),
        ),
        (
            MUTUAL,
            FACTS,
            HostState("refused", "A certificate authority that the module mutual_tls names does not exist."),
        ),
        (
            MUTUAL,
            replace(FACTS, authorities=[None]),
            HostState("refused", "A certificate authority that the module mutual_tls names does not exist."),
        ),
        (
            MUTUAL,
            replace(FACTS, authorities=[ServedAuthority(A, "ca_1", "")]),
            HostState("refused", "The stored certificate authority that the module mutual_tls names is malformed."),
        ),
        (
            edge(),
            replace(FACTS, has_other_proxy_protocol=True),
            HostState(
                "refused",
                (
                    "The reservations of this host and of the edge's first host differ in proxy_protocol: set the "
                    "same value in both."
                ),
            ),
        ),
        (edge(terminate_at="upstream"), replace(FACTS, certificate=""), HostState("live")),
        (edge(id="edgtcp_1"), HostFacts("a.example.com:20000", True), HostState("live")),
        (
            edge(),
            HostFacts(HOST, True),
            HostState(
                "refused",
                f"No TLS certificate of the account covers the host: upload one for {HOST} or *.example.com.",
            ),
        ),
        (
            edge(),
            HostFacts(HOST, True, certificate="operator"),
            HostState(
                "refused",
                f"No TLS certificate covers the host: upload one for {HOST} or *.example.com. Until then,"
                " visitors get the operator's certificate.",
                "operator",
            ),
        ),
    ],
)
def test_a_host_is_live_or_says_why_not(served: ServedEdge, facts: HostFacts, expected: HostState) -> None:
    assert states.decide_host(served, facts) == expected


@pytest.mark.parametrize(
    ("served", "match", "expected"),
    [
        (edge(), route(), RouteState()),
        (edge(), route(backend=None), RouteState("no_backend")),
        (edge(), route("/a?b"), RouteState("no_backend", "No request can match the path, since it contains ? or #.")),
        (
            edge(unenforced=("oauth",)),
            route("/a?b"),
            RouteState("not_enforced", "The edge cannot enforce these enabled modules: oauth."),
        ),
        (
            edge(),
            route(unenforced=("policy",)),
            RouteState("not_enforced", "The edge cannot enforce these enabled modules: policy."),
        ),
    ],
)
def test_a_route_is_open_or_says_why_not(served: ServedEdge, match: ServedRoute, expected: RouteState) -> None:
    assert states.decide_route(served, match, managed_apps=frozenset()) == expected


HOLDER = edge(id="edgtcp_2", hosts=["tunnels.localhost:20000"])


@pytest.mark.parametrize(
    ("ports", "owner", "expected"),
    [
        (range(20000, 20010), HOLDER, "Another edge of the account already has the port."),
        (range(20000, 20010), replace(HOLDER, id="edgtcp_1"), ""),
        (
            range(20000, 20010),
            replace(HOLDER, account="acct_b"),
            "The account does not own the port: add a hostport with this port below TUNNEL_DOMAIN.",
        ),
        (
            range(20000, 20010),
            None,
            "The account does not own the port: add a hostport with this port below TUNNEL_DOMAIN.",
        ),
        (range(0), HOLDER, "No port is open: the operator has set no TCP_PORTS."),
        (range(20001, 20010), HOLDER, "The port is not open: 20000 is outside of TCP_PORTS, 20001 to 20009."),
    ],
)
def test_a_tcp_edge_has_its_port_or_says_why_not(ports: range, owner: ServedEdge | None, expected: str) -> None:
    assert states.describe_port(edge(id="edgtcp_1"), "tunnels.localhost:20000", ports, owner) == expected
