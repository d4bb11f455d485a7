"""Routes of HTTPS edges: the requests that a path selects, and the modules they pass through.

A route refers to its edge always, strict references or not: the edge cannot go before its routes.
"""

from typing import Annotated, Literal

from chalicelib import modules
from chalicelib.http import inline_modules
from chalicelib.http.errors import Conflict, UnknownReference
from chalicelib.http.resource import EditableResource, Unique
from chalicelib.model import edges, kinds
from chalicelib.schema.fields import Described, Metadata, Shown
from chalicelib.schema.rules import form, max_bytes, max_encoded, unless_blank

MatchType = Literal["exact_path", "path_prefix"]
Match = Annotated[str, form(r"/[!-~]*", "must be a path: it starts with a slash and holds no space"), max_bytes(1024)]


class Create(Described):
    metadata: Annotated[Metadata, max_encoded(16 * 1024)] = ""
    """Arbitrary user-defined data, optional, at most 4096 bytes. Typically a serialized JSON text.

    At most 16,384 characters, counted in JSON that stands in JSON once more: only control characters can exceed that.
    """

    match_type: MatchType
    """How `match` selects requests."""

    match: Match
    """A path, visible ASCII, at most 1024 bytes; unique in the edge with its match_type."""


class Change(Create):
    match_type: Annotated[MatchType, unless_blank] = "path_prefix"
    match: Annotated[Match, unless_blank] = "/"


class HTTPSEdgeRoute(Create, Shown):
    """Requests to an HTTPS edge that a path selects, and the modules they pass through."""

    edge_id: str
    """The HTTPS edge that it belongs to."""


_MODULES = modules.of(kinds.HTTPS_EDGE_ROUTES)

RESOURCE = EditableResource(
    kind=kinds.HTTPS_EDGE_ROUTES,
    create=Create,
    change=Change,
    response=inline_modules.shown(HTTPSEdgeRoute, _MODULES),
    errors={"POST": (UnknownReference, Conflict), "PATCH": (UnknownReference, Conflict)},
    modules=_MODULES,
    unique=Unique(("match_type", "match"), edges.match_keys),
)
