"""Edges on a real edge: what is kept in the store answers a moment later, through Envoy and tunnels with labels."""

from collections import Counter
from dataclasses import replace
from typing import Any

from chalicelib import ids
from chalicelib.model.backends import HttpResponse, TunnelGroup, Weighted
from chalicelib.model.modules import Backend
from chalicelib.model.served import Modules, ServedBackend, ServedEdge, ServedRoute
from tests.edge.conftest import needs_envoy
from tests.edge.running import Edge, until

ACCOUNT = "acct_edges"
pytestmark = needs_envoy


def backend(edge: Edge, prefix: str, value: Any) -> str:
    made = ServedBackend(ACCOUNT, ids.new(prefix), value)
    edge.store.keep(made)
    return made.id


def route(to: str, match: str = "/") -> ServedRoute:
    return ServedRoute(ids.new("edghtsrt"), "path_prefix", match, Modules(backend=Backend(backend_id=to)))


def https_edge(edge: Edge, name: str, *routes: ServedRoute) -> ServedEdge:
    hostport = f"{name}.{edge.settings.tunnel_domain}:443"
    made = ServedEdge(ACCOUNT, ids.new("edghts"), 1, (hostport,), routes=routes)
    edge.store.keep(made)
    return made


def test_a_group_of_tunnels_answers_for_an_edge_and_weights_are_shifted(edge: Edge, origin: int) -> None:
    key = edge.key(ACCOUNT)
    group = backend(edge, "bkdtg", TunnelGroup(labels={"app": "shop"}))
    answer = backend(edge, "bkdhr", HttpResponse(status_code=503, body="closed\n"))
    weighted = Weighted(backends={group: 1, answer: 0})
    shared = backend(edge, "bkdwd", weighted)
    https_edge(edge, "shop", route(shared), route(answer, "/closed"))
    for _ in range(2):
        edge.ssh(key, "-R", f"app=shop:80:localhost:{origin}")
    until(lambda: edge.status("shop") == "200")
    assert edge.curl("shop", path="/closed") == "closed\n"

    edge.store.keep(ServedBackend(ACCOUNT, shared, replace(weighted, backends={group: 0, answer: 1})))

    until(lambda: edge.status("shop") == "503")
    edge.store.keep(ServedBackend(ACCOUNT, shared, replace(weighted, backends={group: 1, answer: 1})))
    until(lambda: Counter(edge.status("shop") for _ in range(10)).keys() == {"200", "503"})


def test_a_route_whose_module_cannot_be_enforced_is_closed(edge: Edge) -> None:
    answer = backend(edge, "bkdhr", HttpResponse(status_code=200, body="open\n"))
    open_route = route(answer)
    made = https_edge(edge, "oauth", open_route)
    until(lambda: edge.curl("oauth") == "open\n")
    closed = replace(open_route, modules=replace(open_route.modules, unenforced=("oauth",)))
    edge.store.keep(replace(made, revision=2, routes=(closed,)))
    until(lambda: edge.status("oauth") == "503", within=2)
    edge.store.forget(made)
    until(lambda: edge.curl("oauth", "-o", "/dev/null", "-w", "%{http_code}") == "404", within=2)
