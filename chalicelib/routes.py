"""All endpoints of the API. Only `make openapi` and the operator's commands import them together."""

from chalicelib import edges, modules, resources
from chalicelib.documents import docs, openapi
from chalicelib.exchange import exchange_endpoint
from chalicelib.http.endpoints import Routes
from chalicelib.resources import health
from chalicelib.resources.accounts import api_key_rules, me, sign_in
from chalicelib.resources.ssh import ssh_trust
from chalicelib.resources.tunnels import gateways

DOCUMENTED: tuple[Routes, ...] = (
    *resources.load_all(),
    me.ROUTES,
    api_key_rules.ROUTES,
    sign_in.ROUTES,
    exchange_endpoint.ROUTES,
    ssh_trust.ROUTES,
    gateways.ROUTES,
    health.ROUTES,
    *edges.load_all(),
    *modules.load_all(),
    openapi.ROUTES,
)
ALL: tuple[Routes, ...] = (*DOCUMENTED, docs.ROUTES)  # with /docs, which the OpenAPI document does not describe
