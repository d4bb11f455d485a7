"""Request headers that an edge or a reserved domain lets visitors send, through Envoy to the upstream."""

from dataclasses import replace

import pytest

from chalicelib import ids
from chalicelib.model.edges.backends import TunnelGroup
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.served import ServedBackend, ServedEdge, ServedRoute
from chalicelib.model.names.reservations import ServedReservation
from tests.edge.edge_modules import enabled
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, until

ACCOUNT = "acct_kept"
KEEP_HEADERS = ("x-user", "via", "x-absent", "accept")
CLAIMS = ["-H", "X-User: ada", "-H", "X-User: grace", "-H", "X_User: eve", "-H", "X-Email: eve", "-H", "Via: 1.1 me"]
READ = ["accept: */*", "via: 1.1 me", "x-user: ada,grace"]
pytestmark = needs_envoy


def read(edge: Edge, name: str, *protocol: str) -> list[str]:
    """Return what the upstream reads of the headers in question."""
    lines = edge.curl(name, *protocol, *CLAIMS).splitlines()
    names = ("x-user", "x_user", "x-email", "via", "x-absent", "accept", "kept")
    return sorted(line for line in lines if line.partition(":")[0] in names)


@pytest.mark.parametrize("protocol", ["--http1.1", "--http2"])
def test_a_reserved_domain_keeps_the_headers_that_it_names(edge: Edge, origin: int, protocol: str) -> None:
    name = f"held{protocol[-1]}"
    edge.ssh(edge.key(ACCOUNT), "-R", f"{name}:80:127.0.0.1:{origin}", "-R", f"un{name}:80:127.0.0.1:{origin}")
    until(lambda: edge.status(name) == edge.status(f"un{name}") == "200")
    assert read(edge, name, protocol) == ["accept: */*"]

    reservation = ServedReservation(ACCOUNT, ids.new("rd"), f"{name}.{edge.settings.tunnel_domain}", True)
    edge.store.reserve(replace(reservation, keep_headers=KEEP_HEADERS))

    until(lambda: read(edge, name, protocol) == READ)
    assert read(edge, f"un{name}", protocol) == ["accept: */*"]
    edge.store.reserve(reservation)
    until(lambda: read(edge, name, protocol) == ["accept: */*"])


@pytest.mark.parametrize("protocol", ["--http1.1", "--http2"])
def test_an_edge_keeps_the_headers_that_it_names(edge: Edge, origin: int, protocol: str) -> None:
    name = f"edge{protocol[-1]}"
    group = ServedBackend(ACCOUNT, ids.new("bkdtg"), TunnelGroup(labels={"app": name}))
    edge.store.keep(group)
    edge.ssh(edge.key(ACCOUNT), "-R", f"app={name}:80:127.0.0.1:{origin}")
    modules = enabled(backend=BackendModule(backend_id=group.id))
    routes = (ServedRoute(ids.new("edghtsrt"), "path_prefix", "/", modules),)
    served_edge = ServedEdge(
        ACCOUNT, ids.new("edghts"), 1, (f"{name}.{edge.settings.tunnel_domain}:443",), routes=routes
    )
    edge.store.keep(served_edge)
    until(lambda: read(edge, name, protocol) == ["accept: */*"])

    edge.store.keep(replace(served_edge, revision=2, keep_headers=KEEP_HEADERS))

    until(lambda: read(edge, name, protocol) == READ)
