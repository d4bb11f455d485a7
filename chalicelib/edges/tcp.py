"""TCP edges: what answers TCP connections to their hostports, on any port."""

from chalicelib import modules
from chalicelib.edges import hostports
from chalicelib.edges.hostports import Hostports
from chalicelib.http import inline_modules
from chalicelib.http.errors import Conflict, UnknownReference
from chalicelib.http.resource import EditableResource
from chalicelib.model import kinds
from chalicelib.schema.fields import Described, Shown


class Edge(Described):
    hostports: Hostports = []
    """Where the edge listens, as host:port; no other edge of the service may have one meanwhile."""


class TCPEdge(Edge, Shown):
    """Answers TCP connections to its hostports, on any port."""


_MODULES = modules.of(kinds.TCP_EDGES)

RESOURCE = EditableResource(
    kind=kinds.TCP_EDGES,
    create=Edge,
    change=Edge,
    response=inline_modules.shown(TCPEdge, _MODULES),
    errors={"POST": (UnknownReference, Conflict), "PATCH": (UnknownReference, Conflict)},
    modules=_MODULES,
    unique=hostports.UNIQUE,
)
