"""`make docs`: the page behind GET /docs, made of the OpenAPI document and of the viewer that viewer.json names.

Everything is in the page: a browser that shows it asks nobody for anything.
"""

import base64
import hashlib
import io
import json
import os
import re
import sys
import tarfile
from http.client import HTTPException
from typing import Any
from urllib.request import urlopen

from infra import ROOT, CommandError

PAGE = ROOT / "chalicelib" / "docs.html"
_DOCUMENT = ROOT / "chalicelib" / "openapi.json"
_VIEWER = ROOT / "infra" / "build" / "viewer.json"
_KEPT = ROOT / "build" / "viewer.tgz"
_REGISTRY = "https://registry.npmjs.org"
_LOGO = "https://cdn.redoc.ly/redoc/logo-mini.svg"  # the one thing that the viewer would ask another host for

_TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>body {{ margin: 0 }}</style>
</head>
<body>
<div id="reference"></div>
<script type="application/json" id="document">{document}</script>
<!--
{licences}
-->
<script>{viewer}</script>
<script>
const described = JSON.parse(document.getElementById("document").textContent)
const api = location.origin + location.pathname.replace(/\\/docs\\/*$/, "")
described.servers = [{{url: api}}]
Redoc.init(
  described,
  {{downloadUrls: [{{title: "openapi.json", url: `${{api}}/openapi.json`}}], sortRequiredPropsFirst: true}},
  document.getElementById("reference"),
)
</script>
</body>
</html>
"""


def main() -> None:
    """Make the page; one sentence and exit status 1 when it cannot be done."""
    try:
        archive = _viewer(json.loads(_VIEWER.read_text(encoding="utf-8")))
    except CommandError as error:
        sys.exit(str(error))
    PAGE.write_text(page(archive, json.loads(_DOCUMENT.read_text(encoding="utf-8"))), encoding="utf-8")


def page(archive: bytes, document: dict[str, Any]) -> str:
    """The page that shows a document, with the viewer in an archive of npm's."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        script, its_parts, its_own = (
            files.extractfile(f"package/{name}").read().decode()  # type: ignore[union-attr]
            for name in ("bundles/redoc.standalone.js", "bundles/redoc.standalone.js.LICENSE.txt", "LICENSE")
        )
    return _TEMPLATE.format(
        title=document["info"]["title"],
        document=json.dumps(document, separators=(",", ":")).replace("<", "\\u003c"),
        licences=f"{its_own}\n{its_parts}".replace("-->", "-- >"),
        viewer=_inline(script),
    )


def _inline(script: str) -> str:
    """The script as it may stand in a page: nothing in it ends it, and nothing makes a browser ask another host."""
    alone = re.sub(r"\n//# sourceMappingURL=.*", "", script).replace(_LOGO, "data:,")
    return re.sub(r"<(?=/?script|!--)", r"\\x3c", alone, flags=re.IGNORECASE)


def _viewer(wanted: dict[str, str]) -> bytes:
    """The viewer's archive: the one that was kept, or else the registry's. Raises CommandError if it is another."""
    if _KEPT.exists() and _integrity(_KEPT.read_bytes()) == wanted["integrity"]:
        return _KEPT.read_bytes()
    name, version = wanted["package"], wanted["version"]
    registry = (os.environ.get("NPM_CONFIG_REGISTRY") or _REGISTRY).rstrip("/")
    archive = _fetch(f"{registry}/{name}/-/{name}-{version}.tgz")
    if _integrity(archive) != wanted["integrity"]:
        told = f"{name} {version} as {registry} has it is not what infra/build/viewer.json names"
        raise CommandError(f"{told}: its digest differs.")
    _KEPT.parent.mkdir(exist_ok=True)
    _KEPT.write_bytes(archive)
    return archive


def _fetch(url: str) -> bytes:
    try:
        with urlopen(url, timeout=30) as answer:
            content: bytes = answer.read()
    except (HTTPException, OSError, ValueError) as error:
        raise CommandError(f"{url} cannot be fetched ({error}): the reference's viewer comes from there.") from None
    return content


def _integrity(archive: bytes) -> str:
    """The digest of an archive, as npm writes it."""
    return f"sha512-{base64.b64encode(hashlib.sha512(archive).digest()).decode()}"


if __name__ == "__main__":
    main()
