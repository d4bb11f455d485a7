"""All that the API offers: every resource, edge and module, the document of them, and the page that shows it."""

from chalicelib import docs, edges, modules, reference, resources
from chalicelib.api.endpoints import Offer

DOCUMENTED: tuple[Offer, ...] = (*resources.ALL, *edges.ALL, *modules.ALL, reference.REFERENCE)
ALL: tuple[Offer, ...] = (*DOCUMENTED, docs.DOCS)  # a page for people has no place in the document
