"""`make docs`: the HTML page of GET /docs, generated from the OpenAPI document and docs/conventions.md."""

from infra import ROOT

PAGE = ROOT / "chalicelib" / "documents" / "docs.html"
