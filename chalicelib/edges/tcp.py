"""TCP edges: what answers TCP connections to their hostports, on any port."""

from chalicelib import modules
from chalicelib.edges.hostports import Hostports, Listeners
from chalicelib.http import inline_modules
from chalicelib.http.errors import Conflict, UnknownReference
from chalicelib.model import kinds
from chalicelib.model.edges import Edge
from chalicelib.schema.fields import Described, Shown


class TCPListener(Described):
    hostports: Hostports = []
    """Where the edge listens, as host:port; no other edge of the account may have one meanwhile. A name below the
    domain of tunnels is the account's for as long; elsewhere a hostport is served when its domain is proved."""


class TCPEdge(TCPListener, Shown):
    """Answers TCP connections to its hostports, on any port."""


_MODULES = modules.of(kinds.TCP_EDGES)

RESOURCE = Listeners(
    kind=kinds.TCP_EDGES,
    stored=Edge,
    create=TCPListener,
    change=TCPListener,
    response=inline_modules.shown(TCPEdge, _MODULES),
    errors={"POST": (UnknownReference, Conflict), "PATCH": (UnknownReference, Conflict)},
    modules=_MODULES,
)
