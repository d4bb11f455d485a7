"""TLS edges: what answers TLS connections to their hostports, on port 443."""

from chalicelib import modules
from chalicelib.edges.hostports import HostportsOn443, Listeners
from chalicelib.http import inline_modules
from chalicelib.http.errors import Conflict, UnknownReference
from chalicelib.model import kinds
from chalicelib.model.edges import Edge
from chalicelib.schema.fields import Described, Shown


class TLSListener(Described):
    hostports: HostportsOn443 = []
    """Where the edge listens, as host:port; no other edge of the account may have one meanwhile. A name below the
    domain of tunnels is the account's for as long; elsewhere a hostport is served when its domain is proved."""


class TLSEdge(TLSListener, Shown):
    """Answers TLS connections to its hostports, on port 443."""


_MODULES = modules.of(kinds.TLS_EDGES)

RESOURCE = Listeners(
    kind=kinds.TLS_EDGES,
    stored=Edge,
    create=TLSListener,
    change=TLSListener,
    response=inline_modules.shown(TLSEdge, _MODULES),
    errors={"POST": (UnknownReference, Conflict), "PATCH": (UnknownReference, Conflict)},
    modules=_MODULES,
)
