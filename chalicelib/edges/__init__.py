"""Edges and routes: what modules attach to. One file each; their modules are those whose path says so."""

from chalicelib.edges import https, routes, tcp, tls
from chalicelib.http.resource import Resource

ALL: tuple[Resource, ...] = (https.RESOURCE, routes.RESOURCE, tls.RESOURCE, tcp.RESOURCE)
