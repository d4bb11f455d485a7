"""TLS edges: what answers TLS connections to their hostports, on port 443."""

from chalicelib import modules
from chalicelib.edges import hostports
from chalicelib.edges.hostports import HostportsOn443
from chalicelib.http import inline_modules
from chalicelib.http.errors import Conflict, UnknownReference
from chalicelib.http.resource import EditableResource
from chalicelib.model import kinds
from chalicelib.schema.fields import Described, Shown


class Edge(Described):
    hostports: HostportsOn443 = []
    """Where the edge listens, as host:port; no other edge of the service may have one meanwhile."""


class TLSEdge(Edge, Shown):
    """Answers TLS connections to its hostports, on port 443."""


_MODULES = modules.of(kinds.TLS_EDGES)

RESOURCE = EditableResource(
    kind=kinds.TLS_EDGES,
    create=Edge,
    change=Edge,
    response=inline_modules.shown(TLSEdge, _MODULES),
    errors={"POST": (UnknownReference, Conflict), "PATCH": (UnknownReference, Conflict)},
    modules=_MODULES,
    unique=hostports.UNIQUE,
)
