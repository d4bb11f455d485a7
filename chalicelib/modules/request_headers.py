"""Headers that an HTTPS edge route adds to requests, and removes from them."""

from typing import Annotated

from chalicelib.http.module import Enabled, Module
from chalicelib.model.edges.headers import header_changes
from chalicelib.model.edges.modules.request_headers import MODULE
from chalicelib.schema.changed_headers import ADDED, NAME_SCHEMA, Added, Removed
from chalicelib.schema.rules import After

_Name = Annotated[str, After(header_changes.check_request_name, NAME_SCHEMA)]


class RequestHeaders(Enabled):
    """Adds headers to requests before the upstream receives them, and removes others.

    Headers of `remove` are removed first. A header of `add` then replaces the header of that name, if a visitor sends
    it. A route cannot change headers that the edge or the protocol sets.
    """

    add: Added[_Name] = {}
    f"""{ADDED}"""

    remove: Removed[_Name] = []
    """Names of headers to remove, whatever their value."""


MODULES = tuple(Module(path=path, shape=RequestHeaders, stored=MODULE.stored) for path in MODULE.paths)
