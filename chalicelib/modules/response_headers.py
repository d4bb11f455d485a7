"""Headers that an HTTPS edge route adds to responses, and removes from them."""

from typing import Annotated

from chalicelib.http.module import Enabled, Module
from chalicelib.model.edges import modules
from chalicelib.model.edges.headers import header_changes
from chalicelib.model.edges.headers.header_changes import MAX_CHANGES, MAX_NAME, MAX_VALUE
from chalicelib.schema.rules import After, entries, if_null, max_encoded

_MAX_ADDED = 3072  # characters in the encoding of a response
_Name = Annotated[str, After(header_changes.check_response_name, {"pattern": f"^{header_changes.NAME}$"})]
_Value = Annotated[str, After(header_changes.check_value, {"maxLength": MAX_VALUE})]


class ResponseHeaders(Enabled):
    """Adds headers to responses before visitors receive them, and removes others.

    Headers of `remove` are removed first. A header of `add` then replaces the header of that name, if the upstream
    sends it. A route cannot change headers that the edge or the protocol sets.
    """

    add: Annotated[
        dict[_Name, _Value],
        entries(0, MAX_CHANGES),
        After(header_changes.check_once),
        max_encoded(_MAX_ADDED),
        if_null({}),
    ] = {}
    f"""Headers to add, by name: names of at most {MAX_NAME} characters, values of at most {MAX_VALUE:,}. Together they
    have at most {_MAX_ADDED:,} characters, counted as JSON within JSON."""

    remove: Annotated[list[_Name], entries(0, MAX_CHANGES), After(header_changes.check_once), if_null([])] = []
    """Names of headers to remove, whatever their value."""


MODULES = (
    Module(
        path="/edges/https/{edge_id}/routes/{id}/response_headers", shape=ResponseHeaders, stored=modules.HeadersModule
    ),
)
