"""Edges and routes, one file for each kind.

Their modules, such as basic_auth, are not declared here. A module declares the kinds of edges and routes that can have
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chalicelib.http.resource import Resource


def load_all() -> tuple[Resource, ...]:
    """Import all files of this folder that declare a Resource. Return the resources."""
    from chalicelib.edges import https, routes, tcp, tls

    return (https.RESOURCE, routes.RESOURCE, tls.RESOURCE, tcp.RESOURCE)
