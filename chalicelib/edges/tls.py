"""TLS edges, which answer TLS connections to their hostports, on port 443."""

from chalicelib import modules
from chalicelib.edges.hostports import HostportsOn443, Listeners
from chalicelib.http import inline_modules
from chalicelib.http.errors import Conflict, UnknownReference
from chalicelib.model.base import kinds
from chalicelib.model.edges.edges import Edge
from chalicelib.schema.fields import DescribedShape, Shown


class TLSListener(DescribedShape):
    hostports: HostportsOn443 = []
    """Addresses on which the edge listens, as host:port. No other edge of the account can have the same hostport. A
    name below the domain of tunnels then belongs to the account. A hostport of any other domain is served once the
    account has proved the domain."""


class TLSEdge(TLSListener, Shown):
    """An edge that answers TLS connections to its hostports, on port 443."""


_MODULES = modules.of(kinds.TLS_EDGES)

RESOURCE = Listeners(
    kind=kinds.TLS_EDGES,
    stored=Edge,
    create=TLSListener,
    change=TLSListener,
    response=inline_modules.build_response_shape(TLSEdge, _MODULES),
    errors={"POST": (UnknownReference, Conflict), "PATCH": (UnknownReference, Conflict)},
    modules=_MODULES,
)
