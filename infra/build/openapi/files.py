"""The files that `make openapi` writes: the OpenAPI document, and docs/api.txt, which is committed."""

import os

from chalicelib import routes
from chalicelib.documents import openapi
from infra.build.openapi import document, listing


def write_document() -> None:
    """Write the document that the API serves, atomically and only if it has changed. Raises NoSample."""
    text = document.text(routes.DOCUMENTED)
    if openapi.FILE.exists() and openapi.FILE.read_text(encoding="utf-8") == text:
        return
    new = openapi.FILE.with_name(f"{openapi.FILE.name}.{os.getpid()}")  # several builds may run at once
    new.write_text(text, encoding="utf-8")
    new.replace(openapi.FILE)


def write_list() -> None:
    """Write docs/api.txt, the list of all operations and fields."""
    listing.FILE.write_text(listing.text(document.make([*routes.DOCUMENTED])), encoding="utf-8")
