"""The files that `make openapi` writes: the OpenAPI document, and docs/api.txt, which is committed."""

import os

from chalicelib import routes
from chalicelib.documents import openapi
from infra import ROOT
from infra.build.openapi import document, listing


def is_document_current() -> bool:
    """Return whether the document is newer than the files that it is made of. `make` applies the same rule."""
    sources = [*(ROOT / "chalicelib").rglob("*.py"), *(ROOT / "infra" / "build" / "openapi").iterdir()]
    newest = max(file.stat().st_mtime for file in sources if file.is_file())
    return openapi.FILE.exists() and openapi.FILE.stat().st_mtime > newest


def write_document() -> None:
    """Write the document that the API serves, atomically. Raises NoSample.

    If it is unchanged, only its time changes: `make` would otherwise build it again.
    """
    text = document.text(routes.DOCUMENTED)
    if openapi.FILE.exists() and openapi.FILE.read_text(encoding="utf-8") == text:
        openapi.FILE.touch()
        return
    new = openapi.FILE.with_name(f"{openapi.FILE.name}.{os.getpid()}")  # several builds may run at once
    new.write_text(text, encoding="utf-8")
    new.replace(openapi.FILE)


def write_list() -> None:
    """Write docs/api.txt, the list of all operations and fields."""
    listing.FILE.write_text(listing.text(document.make([*routes.DOCUMENTED])), encoding="utf-8")
