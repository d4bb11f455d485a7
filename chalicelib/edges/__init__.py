"""Edges and routes, one file for each kind. The path of a module shows to which of them it belongs."""

from chalicelib.edges import https, routes, tcp, tls
from chalicelib.http.resource import Resource

ALL: tuple[Resource, ...] = (https.RESOURCE, routes.RESOURCE, tls.RESOURCE, tcp.RESOURCE)
