"""TCP edges: what answers TCP connections to their hostports, on any port."""

from chalicelib import modules
from chalicelib.edges.hostports import Hostports
from chalicelib.http import inline_modules
from chalicelib.http.errors import Conflict, UnknownReference
from chalicelib.http.resource import EditableResource
from chalicelib.model import kinds
from chalicelib.model.edges import Edge
from chalicelib.schema.fields import Described, Shown


class TCPListener(Described):
    hostports: Hostports = []
    """Where the edge listens, as host:port; no other edge of the service may have one meanwhile."""


class TCPEdge(TCPListener, Shown):
    """Answers TCP connections to its hostports, on any port."""


_MODULES = modules.of(kinds.TCP_EDGES)

RESOURCE = EditableResource(
    kind=kinds.TCP_EDGES,
    stored=Edge,
    create=TCPListener,
    change=TCPListener,
    response=inline_modules.shown(TCPEdge, _MODULES),
    errors={"POST": (UnknownReference, Conflict), "PATCH": (UnknownReference, Conflict)},
    modules=_MODULES,
)
