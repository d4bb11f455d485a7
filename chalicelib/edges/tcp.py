"""TCP edges: what answers TCP connections to their hostports, on any port."""

from chalicelib import modules
from chalicelib.api.fields import Described
from chalicelib.api.modular import ModularResource, make, with_modules
from chalicelib.edges import hostports
from chalicelib.edges.hostports import Hostports


class Edge(Described):
    hostports: Hostports = []


_MODULES = modules.at("/edges/tcp/{id}")
_SHAPE = with_modules(Edge, _MODULES)

TCP_EDGES = ModularResource(
    prefix="edgtcp",
    path="/edges/tcp",
    items="tcp_edges",
    create=_SHAPE,
    change=_SHAPE,
    make=make,
    modules=_MODULES,
    claims=hostports.claims,
)
