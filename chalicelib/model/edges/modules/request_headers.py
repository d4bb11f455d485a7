"""Headers that HTTPS edge routes set on requests, and remove from them."""

from chalicelib.model.edges.headers import changed_headers, header_changes

MODULE = changed_headers.declare(
    "request_headers", header_changes.check_request_name, "filters.header_changes.change_requests"
)
