"""A browser of a person who visits hosts of an edge: it keeps cookies by host, and follows redirects."""

import ssl
from typing import Any

import httpx

from tests.live.edge.running import Edge


class Browser:
    """A browser with a cookie jar. `addresses` are all URLs that it has opened."""

    def __init__(self, edge: Edge) -> None:
        self._edge, self.addresses = edge, list[str]()
        self._client = httpx.Client(
            transport=_Loopback(edge), headers={"sec-fetch-mode": "navigate"}, follow_redirects=True, trust_env=False
        )

    @property
    def cookies(self) -> dict[str, str]:
        """Return the cookies of all hosts."""
        return {cookie.name: cookie.value or "" for cookie in self._client.cookies.jar}

    def open(self, name: str, path: str = "/") -> httpx.Response:
        """Return the last response of a page."""
        answer = self._client.get(self._edge.url(name, path))
        self.addresses += [str(response.url) for response in (*answer.history, answer)]
        return answer


class _Loopback(httpx.HTTPTransport):
    """Connects to this machine for every host, with a new connection for each request."""

    def __init__(self, edge: Edge) -> None:
        context = ssl.create_default_context(cafile=edge.settings.directory / "authority.crt")
        super().__init__(verify=context, limits=httpx.Limits(max_keepalive_connections=0))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a copy of the request to the address. The client finds cookies by the URL of the request itself."""
        extensions: dict[str, Any] = {**request.extensions, "sni_hostname": request.url.host}
        url = request.url.copy_with(host="127.0.0.1")
        return super().handle_request(
            httpx.Request(request.method, url, headers=request.headers, stream=request.stream, extensions=extensions)
        )
