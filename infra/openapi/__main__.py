"""`make openapi`: write the document to where the API serves it from."""

from chalicelib import edges, modules, reference, resources
from chalicelib.api.endpoints import Offer
from infra.openapi import document

OFFERS: tuple[Offer, ...] = (*resources.ALL, *edges.ALL, *modules.ALL, reference.REFERENCE)

if __name__ == "__main__":
    reference.DOCUMENT.write_text(document.text(OFFERS), encoding="utf-8")
