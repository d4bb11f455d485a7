"""Headers that a route adds and removes, as an upstream and a visitor see them."""

from dataclasses import replace

from chalicelib import ids
from chalicelib.model.edges.backends import TunnelGroup
from chalicelib.model.edges.headers.changed_headers import HeadersModule
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.served import ServedBackend, ServedEdge, ServedRoute
from tests.edge.edge_modules import enabled
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, until

pytestmark = needs_envoy
ACCOUNT = "acct_A"


def test_an_upstream_and_a_visitor_see_the_changes_of_the_route(edge: Edge, origin: int) -> None:
    edge.ssh(edge.key(ACCOUNT), "-R", f"app=headers:80:localhost:{origin}")
    group = ServedBackend(ACCOUNT, ids.new("bkdtg"), TunnelGroup(labels={"app": "headers"}))
    edge.store.keep(group)
    upstream = BackendModule(backend_id=group.id)
    of_requests = HeadersModule(add={"X-Edge": "100%", "Authorization": "Basic eA=="}, remove=["Cookie", "X-Debug"])
    of_responses = HeadersModule(add={"X-Frame-Options": "DENY"}, remove=["Server", "Content-Type"])
    changed = enabled(backend=upstream, request_headers=of_requests, response_headers=of_responses)
    routes = (
        ServedRoute(ids.new("edghtsrt"), "path_prefix", "/", changed),
        ServedRoute(ids.new("edghtsrt"), "path_prefix", "/plain", enabled(backend=upstream)),
    )
    served = ServedEdge(ACCOUNT, ids.new("edghts"), 1, (f"headers.{edge.settings.tunnel_domain}:443",), routes=routes)
    edge.store.keep(served)
    until(lambda: edge.status("headers", path="/plain") == "200")
    sent = ("x-edge: mine", "x-debug: 1", "cookie: a=b", "authorization: c")
    own = [argument for header in sent for argument in ("-H", header)]

    for version in ("--http1.1", "--http2"):
        seen = edge.curl("headers", version, "-i", *own)
        assert "x-edge: 100%\n" in seen
        assert "authorization: Basic eA==\n" in seen
        assert not [it for it in ("mine", "x-debug", "cookie: a=b", "authorization: c", "server:") if it in seen], seen
        assert "x-frame-options: DENY" in seen
        plain = edge.curl("headers", version, "-i", *own, path="/plain")
        assert "x-edge: mine\n" in plain
        assert "cookie: a=b\n" in plain
        assert "DENY" not in plain

    without = replace(routes[0], modules=enabled(backend=upstream))
    edge.store.keep(replace(served, revision=2, routes=(without, routes[1])))
    until(lambda: "x-edge: mine" in edge.curl("headers", *own), within=3)
