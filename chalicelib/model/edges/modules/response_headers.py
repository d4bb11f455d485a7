"""Headers that HTTPS edge routes set on responses, and remove from them."""

from chalicelib.model.base import kinds
from chalicelib.model.edges.edge_modules import EdgeModule
from chalicelib.model.edges.headers import changed_headers, header_changes
from chalicelib.model.edges.headers.changed_headers import HeadersModule

MODULE = EdgeModule(
    name="response_headers",
    holders=(kinds.HTTPS_EDGE_ROUTES,),
    stored=HeadersModule,
    read=lambda module: changed_headers.read(module, header_changes.check_response_name),
    restricts_visitors=False,
    admits_ambiguous_paths=True,
    needs_plaintext=True,
    budget=3_900,
    memory=changed_headers.estimate,
    configures_route="filters.header_changes.change_responses",
)
