"""TLS edges: what answers TLS connections to their hostports, on port 443."""

from chalicelib import modules
from chalicelib.api.errors import Conflict, UnknownReference
from chalicelib.api.fields import Described, Shown
from chalicelib.api.modular import ModularResource, make, showing_modules, with_modules
from chalicelib.edges import hostports
from chalicelib.edges.hostports import HostportsOn443


class Edge(Described):
    hostports: HostportsOn443 = []
    """Where the edge listens, as host:port; no other edge of the service may have one meanwhile."""


class TLSEdge(Edge, Shown):
    """Answers TLS connections to its hostports, on port 443."""


_MODULES = modules.at("/edges/tls/{id}")
_SHAPE = with_modules(Edge, _MODULES)

TLS_EDGES = ModularResource(
    prefix="edgtls",
    path="/edges/tls",
    items="tls_edges",
    create=_SHAPE,
    change=_SHAPE,
    shows=showing_modules(TLSEdge, _MODULES),
    make=make,
    refuses={"POST": (UnknownReference, Conflict), "PATCH": (UnknownReference, Conflict)},
    modules=_MODULES,
    claims=hostports.claims,
)
