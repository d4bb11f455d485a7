"""All routes of the API: resources, edges, modules, the OpenAPI document and the reference page."""

from chalicelib import edges, modules, resources
from chalicelib.documents import docs, openapi
from chalicelib.exchange import exchange_endpoint
from chalicelib.http.endpoints import Routes
from chalicelib.resources import health
from chalicelib.resources.accounts import api_key_rules, me, sign_in
from chalicelib.resources.ssh import ssh_trust
from chalicelib.resources.tunnels import gateways

DOCUMENTED: tuple[Routes, ...] = (
    *resources.ALL,
    me.ME,
    api_key_rules.RULES,
    sign_in.SIGN_IN,
    exchange_endpoint.EXCHANGE,
    ssh_trust.TRUST,
    gateways.GATEWAYS,
    health.HEALTH,
    *edges.ALL,
    *modules.ALL,
    openapi.DOCUMENT,
)
ALL: tuple[Routes, ...] = (*DOCUMENTED, docs.DOCS)  # the document does not include the page for people
