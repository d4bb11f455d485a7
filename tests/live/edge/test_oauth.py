"""OAuth at a real edge: Envoy, the sign-in service, fake providers, and curl as the browser."""

import asyncio
import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from chalicelib import ids
from chalicelib.model.edges.backends import HttpResponse, TunnelGroup
from chalicelib.model.edges.modules import BackendModule
from chalicelib.model.edges.served import Modules, ServedBackend, ServedEdge, ServedRoute
from chalicelib.model.sign_in import signing_keys
from edge.sign_in import server
from tests.edge.sign_in import fake_providers
from tests.edge.sign_in.fake_providers import FakeProviders
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, until
from tests.transports import Client

pytestmark = needs_envoy
NAVIGATES = ("-H", "sec-fetch-mode: navigate")


@pytest.fixture(scope="module")
def providers() -> Iterator[FakeProviders]:
    with fake_providers.serve() as fake:
        yield fake


@pytest.fixture
def service(edge: Edge, providers: FakeProviders, tmp_path: Path) -> Iterator[None]:
    """Run the sign-in service of the edge's host. Its keys are those of the test's store."""
    for kept in (providers.people, providers.calls, providers.silent, providers.refusing, providers.revoked):
        kept.clear()
    file = tmp_path / "endpoints.json"
    file.write_text(json.dumps(providers.endpoints()))
    settings = replace(edge.settings, oauth_endpoints=str(file))
    edge.store.sign_in_keys = []

    async def start() -> "asyncio.Task[None]":
        return asyncio.create_task(server.serve(settings))

    async def stop(task: "asyncio.Task[None]") -> None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    task = edge.run(start())
    until(settings.sign_in_socket.exists)
    edge.store.sign_in_keys = [it.public for it in signing_keys.read()]
    until(lambda: edge.control._serving.public_keys == edge.store.sign_in_keys)
    yield
    edge.run(stop(task))


@dataclass
class Site:
    """An edge with an OAuth route, in the API's store and in that of control."""

    edge: Edge
    admin: Client
    name: str
    served: ServedEdge
    path: str

    def put(self, module: dict[str, Any] | None) -> None:
        """Replace or remove the module, and have control see it."""
        if module is None:
            self.admin.delete(f"{self.path}/oauth")
        else:
            assert self.admin.put(f"{self.path}/oauth", module).status == 200
        (route,) = self.served.routes
        rule = None
        if module and module.get("enabled", True):
            from edge.sign_in.records import _read_rule

            found = _read_rule(self.served.account, self.served.id, route.id)
            assert found
            rule = found[0]
        changed = replace(route, modules=replace(route.modules, oauth=rule))
        self.served = replace(self.served, revision=self.served.revision + 1, routes=(changed,))
        self.edge.store.keep(self.served)
        self.edge.settle()


def site(edge: Edge, admin: Client, name: str, backend: HttpResponse | TunnelGroup) -> Site:
    """Return an open edge."""
    made = admin.create("/edges/https", {})["id"]
    route = admin.create(f"/edges/https/{made}/routes", {"match_type": "path_prefix", "match": "/"})["id"]
    prefix = "bkdtg" if isinstance(backend, TunnelGroup) else "bkdhr"
    answer = ServedBackend(admin.account, ids.new(prefix), backend)
    edge.store.keep(answer)
    routes = (ServedRoute(route, "path_prefix", "/", Modules(backend=BackendModule(backend_id=answer.id))),)
    hostport = f"{name}.{edge.settings.tunnel_domain}:443"
    served = ServedEdge(admin.account, made, 1, (hostport,), routes=routes)
    edge.store.keep(served)
    until(lambda: edge.status(name) in ("200", "503"))
    return Site(edge, admin, name, served, f"/edges/https/{made}/routes/{route}")


def module(name: str = "google", **lists: Any) -> dict[str, Any]:
    own = {key: lists.pop(key) for key in list(lists) if not key.startswith(("email", "teams", "org"))}
    app = {"client_id": "app", "client_secret": "very secret"}
    return {"provider": {name: {**app, **lists}}, **own}


def browse(site: Site, jar: Path, *arguments: str, path: str = "/") -> str:
    """Return status and body of a page as a browser opens it, with all redirects and its cookies."""
    arguments = ("-L", "-b", str(jar), "-c", str(jar), *NAVIGATES, *site.edge.resolved("sign-in"), *arguments)
    return site.edge.curl(site.name, *arguments, "-w", "%{http_code}", path=path)


def test_a_user_who_may_pass_signs_in_and_the_upstream_learns_who_it_is(
    edge: Edge, service: None, admin: Client, providers: FakeProviders, tmp_path: Path, origin: int
) -> None:
    group = site(edge, admin, "tools", TunnelGroup(labels={"app": "tools"}))
    edge.ssh(edge.key(admin.account), "-R", f"app=tools:80:localhost:{origin}")
    until(lambda: edge.status("tools") == "200")
    group.put(module(email_domains=["example.com"]))
    until(lambda: edge.status("tools") == "401")
    assert edge.status("tools", "-H", "authorization: Bearer x", "-X", "POST") == "401"

    jar = tmp_path / "jar"
    seen = browse(group, jar, "-b", "theme=dark", path="/inside?x=1")

    assert "GET /inside?x=1" in seen
    assert "tunnel-auth-user-email: ada@example.com" in seen
    assert "tunnel-auth-provider: google" in seen
    again = browse(group, jar, "-H", "tunnel-auth-user-email: evil@example.com", path="/again")
    assert again.endswith("200")
    assert "tunnel-auth-user-email: ada@example.com" in again
    assert "evil" not in again
    assert "service." not in again  # none of the cookies reaches the upstream
    assert providers.calls.count("google/token") == 1


def test_a_session_is_verified_by_envoy_without_the_service(
    edge: Edge, service: None, admin: Client, tmp_path: Path
) -> None:
    page = site(edge, admin, "page", HttpResponse(body="welcome\n"))
    page.put(module())
    until(lambda: edge.status("page") == "401")
    jar = tmp_path / "jar"
    assert browse(page, jar) == "welcome\n200"
    *_, name, value = next(line for line in jar.read_text().splitlines() if "service.session." in line).split()
    cookie = f"{name}={value}"
    assert edge.curl("page", "-b", cookie) == "welcome\n"  # without a session id: only Envoy can have admitted it
    assert edge.status("page", "-b", cookie[:-4] + "AAAA") == "401"
