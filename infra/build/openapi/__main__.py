"""`make openapi`: write the document to where the API serves it from."""

from chalicelib import openapi, routes
from infra.build.openapi import document

openapi.FILE.write_text(document.text(routes.DOCUMENTED), encoding="utf-8")
