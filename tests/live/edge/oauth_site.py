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

from chalicelib import ids
from chalicelib.model.edges.backends import HttpResponse, TunnelGroup
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.served import ServedBackend, ServedEdge, ServedRoute
from chalicelib.model.edges.sign_in_rules import SignInRule
from chalicelib.model.sign_in import signing_keys
from chalicelib.model.sign_in.signing_keys import KeyPair
from edge.sign_in.sign_in_records import SignInRecords
from tests.edge.edge_modules import enabled
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
    for it in _PAIRS:
        assert signing_keys.create(it.kid, it.signs_from, it.public, it.sealed)
    with module_site.verifying(edge, settings):
        until(lambda: bool(signing_keys.read()))
        _PAIRS[:] = signing_keys.read()
        edge.store.sign_in_keys = [it.public for it in _PAIRS]
        until(lambda: edge.control._serving.public_keys == edge.store.sign_in_keys)
        yield


@dataclass
class Site:
    """An edge with an OAuth route, in the API's store and in that of control."""

    edge: Edge
    admin: Client
    name: str
    served: ServedEdge
    path: str

    def put(self, module: dict[str, Any] | None, name: str = "oauth") -> None:
        """Replace or remove a module of the first route, and have control see it."""
        if module is None:
            self.admin.delete(f"{self.path}/{name}")
        else:
            assert self.admin.put(f"{self.path}/{name}", module).status == 200
        first, *others = self.served.routes
        self._keep(module_site.reread(self.served, first), *others)

    def add(self, match: str, module: dict[str, Any]) -> SignInRule:
        """Add a route with the backend of the first one and a module. Return its rule."""
        routes, (first, *others) = self.path.rpartition("/")[0], self.served.routes
        body = {"match_type": "path_prefix", "match": match, "oauth": module}
        id = self.admin.create(routes, body)["id"]
        added = ServedRoute(id, "path_prefix", match, first.modules)
        self._keep(first, *others, module_site.reread(self.served, added))
        return self.rule(id)

    def _keep(self, *routes: ServedRoute) -> None:
        self.served = replace(self.served, revision=self.served.revision + 1, routes=routes)
        self.edge.store.keep(self.served)

    def rule(self, route: str = "") -> SignInRule:
        """Return the rule of a route as the service reads it, by default of the first one."""
        records, route = SignInRecords(), route or self.served.routes[0].id
        found = asyncio.run(records.current_rule(self.served.account, self.served.id, route))
        assert found
        return found


def site(edge: Edge, admin: Client, name: str, backend: HttpResponse | TunnelGroup) -> Site:
    """Return an open edge."""
    made = admin.create("/edges/https", {})["id"]
    route = admin.create(f"/edges/https/{made}/routes", {"match_type": "path_prefix", "match": "/"})["id"]
    prefix = "bkdtg" if isinstance(backend, TunnelGroup) else "bkdhr"
    answer = ServedBackend(admin.account, ids.new(prefix), backend)
    edge.store.keep(answer)
    routes = (ServedRoute(route, "path_prefix", "/", enabled(backend=BackendModule(backend_id=answer.id))),)
    hostport = f"{name}.{edge.settings.tunnel_domain}:443"
    served = ServedEdge(admin.account, made, 1, (hostport,), routes=routes)
    edge.store.keep(served)
    until(lambda: edge.status(name) in ("200", "503"))
    return Site(edge, admin, name, served, f"/edges/https/{made}/routes/{route}")


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
