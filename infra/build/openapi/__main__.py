"""`make openapi`: write the document to where the API serves it from."""

from chalicelib import offers, reference
from infra.build.openapi import document

reference.DOCUMENT.write_text(document.text(offers.DOCUMENTED), encoding="utf-8")
