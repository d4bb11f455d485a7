"""Routes of HTTPS edges. A route selects requests by path. The modules of the route apply to these requests.

A route always stores a reference to its edge, even without STRICT_REFERENCES. So the record of an edge cannot be
deleted before the records of its routes.
"""

from dataclasses import replace
from typing import Annotated, Literal, cast

from chalicelib import modules
from chalicelib.http import inline_modules
from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import Call, CreatedItem
from chalicelib.http.errors import Conflict, NotFound, UnknownReference
from chalicelib.http.paging import Page
from chalicelib.http.resource import EditableResource, New
from chalicelib.model.base import kinds
from chalicelib.model.edges import edges
from chalicelib.model.edges.edges import Route
from chalicelib.schema.fields import MAX_METADATA, DescribedShape, Metadata, Shown
from chalicelib.schema.rules import form, max_bytes, max_encoded, unless_blank
from chalicelib.schema.shapes import Shape
from chalicelib.storage.records import items, table
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.references import MissingTarget, Reference, TooManyReferrers

_MAX_MATCH, _MAX_ENCODED = 1024, 16 * 1024
MAX_ROUTES = 100  # the most routes of an edge: a response that shows an edge contains all its routes
_NO_EDGE = "There is no such edge in this account."

MatchType = Literal["exact_path", "path_prefix"]
Match = Annotated[
    str, form(r"/[!-~]*", "must be a path that starts with a slash and contains no space"), max_bytes(_MAX_MATCH)
]


class RouteCreate(DescribedShape):
    metadata: Annotated[Metadata, max_encoded(_MAX_ENCODED)] = ""
    f"""Arbitrary user-defined data, optional, at most {MAX_METADATA} bytes. Typically a serialized JSON text.

    At most {_MAX_ENCODED:,} characters as JSON in ASCII, with each quote and backslash counted twice: only
    data with control characters can exceed that.
    """

    match_type: MatchType
    """The way in which `match` selects requests."""

    match: Match
    f"""A path of visible ASCII, at most {_MAX_MATCH} bytes. It is unique in the edge together with match_type."""


class RouteChange(RouteCreate):
    match_type: Annotated[MatchType, unless_blank] = "path_prefix"
    match: Annotated[Match, unless_blank] = "/"


class HTTPSEdgeRoute(RouteCreate, Shown):
    """A route of an HTTPS edge. It selects requests by path. Its modules apply to these requests."""

    edge_id: str
    """The HTTPS edge of the route."""


_MODULES = modules.of(kinds.HTTPS_EDGE_ROUTES)


class RouteResource(EditableResource):
    """Routes. An edge has at most 100 routes, because a response that shows the edge contains all of them."""

    def list_items(self, call: Call, page: Page) -> tuple[list[Item], bool]:
        edge = table.read(*_build_edge_reference(self.scope(call)).target)
        if edge is None:
            raise NotFound(_NO_EDGE)
        return edges.read_route_page(edge, before=page.before_id, count=page.limit)

    def post(self, call: Call) -> CreatedItem:
        try:
            return super().post(call)
        except MissingTarget as missing:
            raise (NotFound(_NO_EDGE) if missing.reference.field == "edge_id" else missing) from None
        except TooManyReferrers as crowded:
            full = Conflict(f"The edge already has {MAX_ROUTES} routes, the maximum: delete one first.")
            raise (full if crowded.reference.field == "edge_id" else crowded) from None

    def new(self, caller: Caller, request: Shape, *, scope: str) -> tuple[Item, New]:
        item, new = super().new(caller, request, scope=scope)
        edge = _build_edge_reference(scope)
        stored = replace(Route.of(item.body), edge_id=edge.id)
        keys = stored.unique_keys(caller.account, item.id)
        references = (*item.references, edge)
        return replace(item, body=stored.to_record(), unique_keys=keys, references=references), new


def _build_edge_reference(scope: str) -> Reference:
    """Return the reference from a route to its edge. `scope` is the partition key of all routes of this edge."""
    return Reference("", *cast(tuple[str, str], items.find_parent(scope)), "edge_id", MAX_ROUTES)


RESOURCE = RouteResource(
    kind=kinds.HTTPS_EDGE_ROUTES,
    stored=Route,
    create=RouteCreate,
    change=RouteChange,
    response=inline_modules.build_response_shape(HTTPSEdgeRoute, _MODULES),
    errors={"POST": (UnknownReference, Conflict), "PATCH": (UnknownReference, Conflict)},
    modules=_MODULES,
)
