"""A site with OAuth at a real edge: its sign-in service, curl as the browser, and connections with a cookie."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, replace
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

from chalicelib.model.edges.backends import HttpResponse, TunnelGroup
from chalicelib.model.edges.sign_in_rules import SignInRule
from chalicelib.model.sign_in import signing_keys
from chalicelib.model.sign_in.signing_keys import KeyPair
from edge.sign_in.sign_in_records import SignInRecords
from tests.edge.sign_in.fake_providers import FakeProviders
from tests.live.edge import module_site
from tests.live.edge.running import Edge, until
from tests.transports import Client

NAVIGATES = ("-H", "sec-fetch-mode: navigate")
WEB_SOCKET = ("connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13", "sec-websocket-key: AAAA")
FRAME = b"\x81\x02hi"
PROVIDER_TIMEOUT = 2  # seconds that the service waits for a provider
_PAIRS: list[KeyPair] = []  # for all tests: control reads new keys only after seconds


@contextlib.contextmanager
def signing_in(edge: Edge, providers: FakeProviders, folder: Path) -> Iterator[None]:
    """Run the sign-in service of the edge's host, with providers that have forgotten earlier tests."""
    providers.reset()
    file = folder / "endpoints.json"
    file.write_text(json.dumps(providers.endpoints()))
    limits = replace(edge.settings.limits, oauth_provider_timeout=PROVIDER_TIMEOUT)
    settings = replace(edge.settings, oauth_endpoints=str(file), limits=limits)
    for pair in _PAIRS:
        assert signing_keys.create(pair.kid, pair.signs_from, pair.public, pair.sealed)
    with module_site.verifying(edge, settings):
        until(lambda: bool(signing_keys.read()))
        _PAIRS[:] = signing_keys.read()
        until(lambda: edge.control._serving.public_keys == [pair.public for pair in _PAIRS])
        yield


@dataclass
class Site:
    """An edge with an OAuth route that the API has made. `path` is the path of the route."""

    edge: Edge
    admin: Client
    name: str
    id: str
    backend: str
    path: str

    def put(self, module: dict[str, Any] | None, name: str = "oauth") -> None:
        """Replace or remove a module of the first route."""
        if module is None:
            self.admin.delete(f"{self.path}/{name}")
        else:
            assert self.admin.put(f"{self.path}/{name}", module).status == 200

    def add(self, match: str, module: dict[str, Any]) -> SignInRule:
        """Add a route with the backend of the first one and a module. Return its rule."""
        backend = {"backend_id": self.backend}
        body = {"match_type": "path_prefix", "match": match, "oauth": module, "backend": backend}
        return self.rule(self.admin.create(self.path.rpartition("/")[0], body)["id"])

    def rule(self, route: str = "") -> SignInRule:
        """Return the rule of a route as the service reads it, by default of the first one."""
        records, route = SignInRecords(), route or self.path.rpartition("/")[2]
        rule = asyncio.run(records.current_rule(self.admin.account, self.id, route))
        assert rule
        return rule


def site(edge: Edge, admin: Client, name: str, backend: HttpResponse | TunnelGroup) -> Site:
    """Return an open edge."""
    edge_id = admin.create("/edges/https", {"hostports": [f"{name}.{edge.settings.tunnel_domain}:443"]})["id"]
    answer = admin.create(*_describe(backend))["id"]
    body = {"match_type": "path_prefix", "match": "/", "backend": {"backend_id": answer}}
    route = admin.create(f"/edges/https/{edge_id}/routes", body)["id"]
    until(lambda: edge.status(name) in ("200", "503"))
    return Site(edge, admin, name, edge_id, answer, f"/edges/https/{edge_id}/routes/{route}")


def _describe(backend: HttpResponse | TunnelGroup) -> tuple[str, dict[str, object]]:
    """Return the collection and the body of a backend."""
    if isinstance(backend, TunnelGroup):
        return "/backends/tunnel_group", {"labels": {**backend.labels}}
    return "/backends/http_response", {"body": backend.body}


def browse(site: Site, jar: Path, *arguments: str, path: str = "/") -> str:
    """Return status and body of a page as a browser opens it, with all redirects and its cookies."""
    arguments = ("-L", "-b", str(jar), "-c", str(jar), *NAVIGATES, *site.edge.resolved("sign-in"), *arguments)
    return site.edge.curl(site.name, *arguments, "-w", "%{http_code}", path=path)


def cookies_in(jar: Path) -> dict[str, str]:
    """Return the cookies of a jar of curl."""
    lines = [line.split("\t") for line in jar.read_text().splitlines() if line.count("\t") == 6]
    return {fields[5]: fields[6] for fields in lines}


def echo(stream: ssl.SSLSocket) -> bytes:
    """Return what a WebSocket sends back for a frame."""
    stream.sendall(bytes([0x81, 0x82, 0, 0, 0, 0]) + FRAME[2:])
    return stream.recv(100)


def get(connection: ssl.SSLSocket, name: str, *headers: str, path: str = "/") -> int:
    """Return the status of a request on a connection of HTTP/1.1, 0 if it is closed."""
    try:
        response = begin(connection, name, *headers, path=path)
        response.read()
    except (OSError, HTTPException):
        return 0
    return response.status


def begin(connection: ssl.SSLSocket, name: str, *headers: str, path: str) -> HTTPResponse:
    """Return the response to a request on a connection of HTTP/1.1, whose body is not read yet."""
    lines = [f"GET {path} HTTP/1.1", f"host: {name}.tunnels.localhost", *headers, "", ""]
    connection.sendall("\r\n".join(lines).encode())
    response = HTTPResponse(connection)
    response.begin()
    return response
