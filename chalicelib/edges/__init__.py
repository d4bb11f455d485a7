"""Edges and routes: what modules attach to. One file each; their modules are those whose path says so."""

from chalicelib.api.resource import Resource
from chalicelib.edges.https import HTTPS_EDGES
from chalicelib.edges.routes import ROUTES
from chalicelib.edges.tcp import TCP_EDGES
from chalicelib.edges.tls import TLS_EDGES

ALL: tuple[Resource, ...] = (
    HTTPS_EDGES,
    ROUTES,
    TLS_EDGES,
    TCP_EDGES,
)
