"""TCP edges: what answers TCP connections to their hostports, on any port."""

from chalicelib import modules
from chalicelib.api.errors import Conflict
from chalicelib.api.fields import Described, Shown
from chalicelib.api.modular import ModularResource, make, showing_modules, with_modules
from chalicelib.edges import hostports
from chalicelib.edges.hostports import Hostports


class Edge(Described):
    hostports: Hostports = []
    """Where the edge listens, as host:port; no other edge of the service may have one meanwhile."""


class TCPEdge(Edge, Shown):
    """Answers TCP connections to its hostports, on any port."""


_MODULES = modules.at("/edges/tcp/{id}")
_SHAPE = with_modules(Edge, _MODULES)

TCP_EDGES = ModularResource(
    prefix="edgtcp",
    path="/edges/tcp",
    items="tcp_edges",
    create=_SHAPE,
    change=_SHAPE,
    shows=showing_modules(TCPEdge, _MODULES),
    make=make,
    refuses={"POST": (Conflict,), "PATCH": (Conflict,)},
    modules=_MODULES,
    claims=hostports.claims,
)
