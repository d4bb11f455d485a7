"""All routes of the API: of every resource, edge and module, of the document of them, and of the page that shows it."""

from chalicelib import docs, edges, modules, openapi, resources
from chalicelib.http.endpoints import Routes
from chalicelib.resources import me, ssh_trust

DOCUMENTED: tuple[Routes, ...] = (
    *resources.ALL,
    me.ME,
    ssh_trust.TRUST,
    *edges.ALL,
    *modules.ALL,
    openapi.DOCUMENT,
)
ALL: tuple[Routes, ...] = (*DOCUMENTED, docs.DOCS)  # a page for people has no place in the document
