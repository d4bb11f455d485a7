"""TLS edges: what answers TLS connections to their hostports, on port 443."""

from chalicelib import modules
from chalicelib.api.fields import Described
from chalicelib.api.modular import ModularResource, make, with_modules
from chalicelib.edges import hostports
from chalicelib.edges.hostports import HostportsOn443


class Edge(Described):
    hostports: HostportsOn443 = []


_MODULES = modules.at("/edges/tls/{id}")
_SHAPE = with_modules(Edge, _MODULES)

TLS_EDGES = ModularResource(
    prefix="edgtls",
    path="/edges/tls",
    items="tls_edges",
    create=_SHAPE,
    change=_SHAPE,
    make=make,
    modules=_MODULES,
    claims=hostports.claims,
)
