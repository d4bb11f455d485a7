"""TCP edges, which answer TCP connections to their hostports, on any port."""

from chalicelib import modules
from chalicelib.edges.hostports import Hostports, Listeners
from chalicelib.http import inline_modules
from chalicelib.http.errors import Conflict, UnknownReference
from chalicelib.model.base import kinds
from chalicelib.model.edges.edges import Edge
from chalicelib.schema.fields import DescribedShape, Shown


class TCPListener(DescribedShape):
    hostports: Hostports = []
    """Addresses on which the edge listens, as host:port. No other edge of the account can have the same hostport. A
    name below the domain of tunnels then belongs to the account. A hostport of any other domain is served once the
    account has proved the domain."""


class TCPEdge(TCPListener, Shown):
    """An edge that answers TCP connections to its hostports, on any port."""


_MODULES = modules.of(kinds.TCP_EDGES)

RESOURCE = Listeners(
    kind=kinds.TCP_EDGES,
    stored=Edge,
    create=TCPListener,
    change=TCPListener,
    response=inline_modules.build_response_shape(TCPEdge, _MODULES),
    errors={"POST": (UnknownReference, Conflict), "PATCH": (UnknownReference, Conflict)},
    modules=_MODULES,
)
