"""Edges and routes, one file for each kind. The paths of modules say where they attach."""

from chalicelib.edges import https, routes, tcp, tls
from chalicelib.http.resource import Resource

ALL: tuple[Resource, ...] = (https.RESOURCE, routes.RESOURCE, tls.RESOURCE, tcp.RESOURCE)
