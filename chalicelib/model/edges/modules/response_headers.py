"""Headers that HTTPS edge routes set on responses, and remove from them."""

from chalicelib.model.edges.headers import changed_headers, header_changes

MODULE = changed_headers.declare(
    "response_headers", header_changes.check_response_name, "filters.header_changes.change_responses"
)
