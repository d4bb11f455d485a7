"""All routes of the API: resources, edges, modules, the OpenAPI document and the reference page."""

from chalicelib import edges, modules, resources
from chalicelib.documents import docs, openapi
from chalicelib.http.endpoints import Routes
from chalicelib.resources.accounts import api_key_rules, me, tokens
from chalicelib.resources.ssh import ssh_trust
from chalicelib.resources.tunnels import gateways

DOCUMENTED: tuple[Routes, ...] = (
    *resources.ALL,
    me.ME,
    api_key_rules.RULES,
    tokens.EXCHANGE,
    ssh_trust.TRUST,
    gateways.GATEWAYS,
    *edges.ALL,
    *modules.ALL,
    openapi.DOCUMENT,
)
ALL: tuple[Routes, ...] = (*DOCUMENTED, docs.DOCS)  # the document leaves out the page for people
