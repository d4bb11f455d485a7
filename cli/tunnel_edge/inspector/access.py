"""Decides who may use the inspector: only the browser that has opened the one-time link. Does no I/O.

Browsers send a cookie of 127.0.0.1 to every port of this address. So the paths of the pages also begin with a secret
folder, which a program on another port does not know.
"""

import hmac
import secrets
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias
from urllib.parse import parse_qs, urlsplit

Decision: TypeAlias = Literal["denied", "redeemed", "allowed"]

_SITES = ("same-origin", "none")  # values of Sec-Fetch-Site that browsers never send with a request from another site


class Access:
    """The secrets of one inspector. Each link works once, and then a new link replaces it."""

    def __init__(self, port: int) -> None:
        self._host = f"127.0.0.1:{port}"
        self._cookie_name, self._cookie = f"te-inspector-{port}", secrets.token_urlsafe(32)
        self._once = secrets.token_urlsafe(32)
        self.folder = f"/{secrets.token_urlsafe(16)}/"
        self.token = secrets.token_urlsafe(32)  # the CSRF token that every POST must contain

    @property
    def link(self) -> str:
        """Return the link that can be used once."""
        return f"http://{self._host}/?once={self._once}"

    @property
    def set_cookie(self) -> str:
        """Return the value of the header Set-Cookie. With this cookie, later requests of the browser are allowed."""
        return f"{self._cookie_name}={self._cookie}; HttpOnly; SameSite=Strict; Path=/"

    def decide(self, method: str, target: str, headers: Iterable[tuple[str, str]]) -> Decision:
        """Return whether a request is permitted. If the request uses the one-time link, replace the link."""
        values: dict[str, list[str]] = {}
        for name, value in headers:
            values.setdefault(name.lower(), []).append(value)
        if values.get("host") != [self._host] or not self._is_same_origin(values):
            return "denied"
        parts = urlsplit(target)
        if parts.path == "/":
            return self._redeem(method, parse_qs(parts.query).get("once", []))
        is_inside = hmac.compare_digest(parts.path[: len(self.folder)].encode(), self.folder.encode())
        return "allowed" if is_inside and self._has_cookie(values.get("cookie", [])) else "denied"

    def permits_change(self, form: Mapping[str, list[str]]) -> bool:
        """Return whether the form in a POST contains the CSRF token of the page."""
        return _is_one_of(form.get("token", []), self.token)

    def _is_same_origin(self, values: Mapping[str, list[str]]) -> bool:
        """Return whether a page of the inspector has sent the request, and no page of another site.

        With the policy no-referrer, browsers send `Origin: null` with the forms of our own page.
        """
        site, origin = values.get("sec-fetch-site", []), values.get("origin", [])
        if site and (len(site) != 1 or site[0] not in _SITES):
            return False
        return origin in ([], [f"http://{self._host}"]) or (origin == ["null"] and site == ["same-origin"])

    def _redeem(self, method: str, values: list[str]) -> Decision:
        if method != "GET" or not _is_one_of(values, self._once):
            return "denied"
        self._once = secrets.token_urlsafe(32)
        return "redeemed"

    def _has_cookie(self, headers: list[str]) -> bool:
        pairs = [pair.strip().partition("=") for header in headers for pair in header.split(";")]
        return _is_one_of([value for name, _, value in pairs if name == self._cookie_name], self._cookie)


def _is_one_of(values: list[str], secret: str) -> bool:
    """Return whether exactly one value is given, and it is the secret.

    The comparison takes the same time for all values of equal length, so its time does not reveal the secret.
    """
    return len(values) == 1 and hmac.compare_digest(values[0].encode(), secret.encode())
