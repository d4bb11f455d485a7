"""HTTPS edges: what answers HTTPS requests to their hostports, by routes. Deleting one deletes its routes first."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, cast

from chalicelib import modules
from chalicelib.edges import routes
from chalicelib.edges.hostports import HostportsOn443, Listeners
from chalicelib.http import inline_modules
from chalicelib.http.endpoints import NO_STORE, Call
from chalicelib.http.errors import Conflict, UnknownReference
from chalicelib.http.resource import plain
from chalicelib.model import edges, kinds
from chalicelib.model.edges import HttpsEdge
from chalicelib.model.modules import EDGE, TlsEnd
from chalicelib.schema.fields import Described, Shown
from chalicelib.schema.header_fields import KeepHeaders
from chalicelib.schema.rules import if_empty, unless_blank
from chalicelib.schema.shapes import ABSENT
from chalicelib.storage.items import Item


class HTTPSListener(Described):
    hostports: HostportsOn443 = []
    """Where the edge listens, as host:port; no other edge of the account may have one meanwhile. A name below the
    domain of tunnels is the account's for as long; elsewhere a hostport is served when its domain is proved."""

    terminate_at: Annotated[TlsEnd, if_empty(EDGE)] = EDGE
    """Where TLS ends: `edge`, or `upstream` when it is passed through to the agent or application server."""

    keep_headers: KeepHeaders = []
    """Names of request headers that visitors may send, although upstreams may believe them of a proxy: at most 20, in
    lower case. A response has it if it is not empty."""


class HTTPSEdgeChange(HTTPSListener):
    # Where TLS ends does not move because a client sends every field it knows.
    terminate_at: Annotated[TlsEnd, unless_blank] = EDGE


class HTTPSEdge(HTTPSListener, Shown):
    """Answers HTTPS requests to its hostports, by routes."""

    keep_headers: list[str] = cast(list[str], ABSENT)
    """Names of request headers that visitors may send, in lower case; absent where there are none."""

    routes: list[routes.RESOURCE.response]  # type: ignore[name-defined]
    """Its routes, newest first: at most 100."""


def _responses(found: Sequence[Item], call: Call) -> Iterator[dict[str, Any]]:
    """Yield the responses of edges: the routes of one are read when it is its turn, and can be 5 MB."""
    for edge, own in zip(found, edges.read_routes(found), strict=True):
        shown = plain(HttpsEdge, edge, call)
        if not shown["keep_headers"]:
            del shown["keep_headers"]
        yield {**shown, "routes": [*routes.RESOURCE.responses(own, call)]}


_MODULES = modules.of(kinds.HTTPS_EDGES)

RESOURCE = Listeners(
    kind=kinds.HTTPS_EDGES,
    stored=HttpsEdge,
    create=HTTPSListener,
    change=HTTPSEdgeChange,
    response=inline_modules.shown(HTTPSEdge, _MODULES),
    to_responses=_responses,
    errors={"POST": (UnknownReference, Conflict), "PATCH": (UnknownReference, Conflict)},
    modules=_MODULES,
    remove=edges.delete_https_edge,
    headers=NO_STORE,  # its routes show OAuth's client secrets
)
