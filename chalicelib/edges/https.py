"""HTTPS edges, which answer HTTPS requests by their routes. The deletion of an edge first deletes its routes."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, cast

from chalicelib import modules
from chalicelib.edges import routes
from chalicelib.edges.hostports import HostportsOn443, Listeners
from chalicelib.http import inline_modules
from chalicelib.http.endpoints import NO_STORE, Call
from chalicelib.http.errors import Conflict, UnknownReference
from chalicelib.http.resource import show_fields
from chalicelib.model.base import kinds
from chalicelib.model.edges import edges
from chalicelib.model.edges.edges import HttpsEdge
from chalicelib.model.edges.modules.tls_termination import EDGE, TlsEnd
from chalicelib.schema.fields import DescribedShape, Shown
from chalicelib.schema.header_fields import KeepHeaders
from chalicelib.schema.rules import if_empty, unless_blank
from chalicelib.schema.shapes import ABSENT
from chalicelib.storage.records.items import Item


class HTTPSListener(DescribedShape):
    hostports: HostportsOn443 = []
    """Addresses on which the edge listens, as host:port. No other edge of the account can have the same hostport. A
    name below the domain of tunnels then belongs to the account. A hostport of any other domain is served once the
    account has proved the domain."""

    terminate_at: Annotated[TlsEnd, if_empty(EDGE)] = EDGE
    """The place where TLS ends: at the `edge`, or `upstream` at the agent or application server."""

    keep_headers: KeepHeaders = []
    """Names of request headers that the edge does not remove from visitors' requests, although upstreams may trust them
    as set by a proxy: at most 20, in lower case. Responses have the field if it is not empty."""


class HTTPSEdgeChange(HTTPSListener):
    # Some clients send every field that they know. So an empty `terminate_at` must not change where TLS ends.
    terminate_at: Annotated[TlsEnd, unless_blank] = EDGE


class HTTPSEdge(HTTPSListener, Shown):
    """An edge that answers HTTPS requests to its hostports by its routes."""

    keep_headers: list[str] = cast(list[str], ABSENT)
    """Names of request headers that the edge does not remove from visitors' requests, in lower case; absent if there
    are none."""

    routes: list[routes.RESOURCE.response]  # type: ignore[name-defined]
    """The routes of the edge, newest first, at most 100."""


def _build_responses(items: Sequence[Item], call: Call) -> Iterator[dict[str, Any]]:
    """Yield the response of each edge. Its routes, up to 5 MB, are read only when the iterator gets to the edge."""
    for edge, route_items in zip(items, edges.read_routes(items), strict=True):
        response = show_fields(HttpsEdge, edge, call)
        if not response["keep_headers"]:
            del response["keep_headers"]
        yield {**response, "routes": [*routes.RESOURCE.responses(route_items, call)]}


_MODULES = modules.of(kinds.HTTPS_EDGES)

RESOURCE = Listeners(
    kind=kinds.HTTPS_EDGES,
    stored=HttpsEdge,
    create=HTTPSListener,
    change=HTTPSEdgeChange,
    response=inline_modules.build_response_shape(HTTPSEdge, _MODULES),
    to_responses=_build_responses,
    errors={"POST": (UnknownReference, Conflict), "PATCH": (UnknownReference, Conflict)},
    modules=_MODULES,
    remove=edges.delete_https_edge,
    headers=NO_STORE,  # no cache may store the response, because it contains the OAuth client secrets of the routes
)
