"""`make docs`: the page behind GET /docs, made of the OpenAPI document and of Redoc, as npm installed it in viewer/.

Everything is in the page: a browser that shows it asks nobody for anything.
"""

import json
import re
from typing import Any

from infra import ROOT

PAGE = ROOT / "chalicelib" / "docs.html"
_DOCUMENT = ROOT / "chalicelib" / "openapi.json"
_VIEWER = ROOT / "infra" / "build" / "viewer" / "node_modules" / "redoc"
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
    """Make the page."""
    PAGE.write_text(_page(json.loads(_DOCUMENT.read_text(encoding="utf-8"))), encoding="utf-8")


def _page(document: dict[str, Any]) -> str:
    script, its_parts, its_own = (
        (_VIEWER / name).read_text(encoding="utf-8")
        for name in ("bundles/redoc.standalone.js", "bundles/redoc.standalone.js.LICENSE.txt", "LICENSE")
    )
    return _TEMPLATE.format(
        title=document["info"]["title"],
        document=json.dumps(document, separators=(",", ":")).replace("<", "\\u003c"),
        licences=f"{its_own}\n{its_parts}".replace("-->", "-- >"),
        viewer=_inline(script),
    )


def _inline(script: str) -> str:
    """Return the script as it may stand in a page: nothing in it ends it, or makes a browser ask another host."""
    alone = re.sub(r"\n//# sourceMappingURL=.*", "", script).replace(_LOGO, "data:,")
    return re.sub(r"<(?=/?script|!--)", r"\\x3c", alone, flags=re.IGNORECASE)


if __name__ == "__main__":
    main()
