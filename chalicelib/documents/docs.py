"""GET /docs, the API reference as an HTML page, and GET /, which redirects browsers to this page.

Neither requires authentication. The build makes the page. The first request reads the page from disk.
"""

import base64
import hashlib
import re
from functools import cache
from pathlib import Path

from chalicelib.http import auth
from chalicelib.http.endpoints import Call, Endpoint
from chalicelib.http.errors import NotFound
from chalicelib.http.static import Redirect, Static

_PAGE = Path(__file__).with_name("docs.html")

# The Content-Security-Policy of the page. It allows only the script and style in the page, by their digests.
_POLICY = (
    "default-src 'none'; script-src {script}; style-src {style}; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # browsers must ask before each use whether their copy is current
}
_LINKS = {"docs": "/docs", "openapi": "/openapi.json"}


@cache
def _page() -> Static:
    text = _PAGE.read_text(encoding="utf-8")
    policy = _POLICY.format(script=_compute_digest(text, "script"), style=_compute_digest(text, "style"))
    served = text.replace(auth.VERSION_HEADER, auth.version_headers()[0])
    return Static(served, {**_HEADERS, "Content-Security-Policy": policy})


def _compute_digest(page: str, element: str) -> str:
    """Return the digest of the text in a page's only `element`, for the Content-Security-Policy.

    `element` is the name of an HTML element: script or style.
    """
    (content,) = re.findall(rf"<{element}>(.*?)</{element}>", page, flags=re.DOTALL)
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def show(_call: Call) -> Static:
    """Return the page. Raises NotFound if the build did not make it."""
    try:
        return _page()
    except FileNotFoundError:
        raise NotFound("This server was built without its reference: run 'make docs'.") from None


def lead(call: Call) -> Redirect:
    """Redirect a browser to the reference. Other clients get the URLs of the reference and of the OpenAPI document."""
    return Redirect("docs", {name: f"{call.base_url}{path}" for name, path in _LINKS.items()})


class _Docs:
    def endpoints(self) -> tuple[Endpoint, ...]:
        return (
            Endpoint("GET", "/docs", 200, show, authorizer=None),
            Endpoint("GET", "/", 200, lead, authorizer=None),
        )


ROUTES = _Docs()
