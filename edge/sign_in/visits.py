"""Requests of visitors as Envoy describes them. This file does no I/O."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

SERVICE = "/_service/"
_MAX_PATH = 2048  # maximum length of a path for a redirect, in bytes
_HOST = re.compile(r"([a-z0-9_-][a-z0-9._-]*)(?::[0-9]*)?", re.ASCII)


@dataclass(frozen=True)
class Visit:
    """A request of a visitor. Header names are in lower case. `path` includes the query, `host` has no port.

    `account`, `edge`, `route` and `audience` come from Envoy's configuration, never from the visitor. `route` is "" if
    the path is below /_service/, where the sign-in service answers. `is_of_service` is true if the host is the sign-in
    service's own.
    """

    method: str
    path: str
    host: str
    address: str
    headers: Mapping[str, str] = field(default_factory=dict)
    account: str = ""
    edge: str = ""
    route: str = ""
    audience: str = ""
    is_of_service: bool = False

    @property
    def is_page_request(self) -> bool:
        """Return whether a browser requests a page. Other requests cannot be redirected to a provider."""
        if self.method not in ("GET", "HEAD") or "upgrade" in self.headers:
            return False
        if any(name.startswith("sec-fetch-") for name in self.headers):
            return self.headers.get("sec-fetch-mode") == "navigate"
        return "text/html" in self.headers.get("accept", "")

    @property
    def is_from_this_site(self) -> bool:
        """Return whether the user, or a page of this host, caused the request.

        Browsers report the cause in the header Sec-Fetch-Site. Another site can cause a request, for example by a link.
        """
        return self.headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")

    @property
    def cookies(self) -> str:
        """Return the Cookie header."""
        return self.headers.get("cookie", "")

    @property
    def endpoint(self) -> str:
        """Return the path without its query."""
        return self.path.partition("?")[0]

    def parameter(self, name: str) -> str | None:
        """Return a parameter of the query. Return "" if it is absent, or None if it occurs twice."""
        query = self.path.partition("?")[2]
        values = [value for key, value in parse_qsl(query, keep_blank_values=True) if key == name]
        return None if len(values) > 1 else (values or [""])[0]


def read_host(authority: str) -> str:
    """Return the host name in a Host header, in lower case. Return "" if the header is malformed.

    Envoy treats the Host header `name:@other.example` like `name`. But in the URL of a redirect, this text would mean
    the host other.example. So only the name may be used.
    """
    match = _HOST.fullmatch(authority.lower())
    return match[1] if match else ""


def safe_path(text: str | None) -> str:
    """Return a text if it is a path on the same host.

    Return "/" for all other texts, such as "//other.example", which browsers take for another host.
    """
    path = text or ""
    is_path = path.startswith("/") and path[1:2] not in ("/", "\\")
    if not is_path or not path.isprintable() or len(path.encode()) > _MAX_PATH:
        return "/"
    try:
        parts = urlsplit(path)
    except ValueError:
        return "/"
    return "/" if parts.netloc or parts.scheme else path
