"""`make docs`: the page behind GET /docs, made of the OpenAPI document and of docs/conventions.md."""

from infra import ROOT

PAGE = ROOT / "chalicelib" / "docs.html"
