"""Headers that an HTTPS edge route adds to responses, and removes from them."""

from typing import Annotated

from chalicelib.http.module import Enabled, Module
from chalicelib.model.edges.headers import header_changes
from chalicelib.model.edges.modules.response_headers import MODULE
from chalicelib.schema.changed_headers import ADDED, NAME_SCHEMA, Added, Removed
from chalicelib.schema.rules import After

_Name = Annotated[str, After(header_changes.check_response_name, NAME_SCHEMA)]


class ResponseHeaders(Enabled):
    """Adds headers to responses before visitors receive them, and removes others.

    Headers of `remove` are removed first. A header of `add` then replaces the header of that name, if the upstream
    sends it. A route cannot change headers that the edge or the protocol sets.
    """

    add: Added[_Name] = {}
    f"""{ADDED}"""

    remove: Removed[_Name] = []
    """Names of headers to remove, whatever their value."""


MODULES = tuple(Module(path=path, shape=ResponseHeaders, stored=MODULE.stored) for path in MODULE.paths)
