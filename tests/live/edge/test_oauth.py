"""OAuth at a real edge: Envoy, the sign-in service, fake providers, and curl as the browser."""

import asyncio
import contextlib
import json
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from chalicelib import ids
from chalicelib.model.edges.backends import HttpResponse, TunnelGroup
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.served import ServedBackend, ServedEdge, ServedRoute
from chalicelib.model.edges.sign_in_rules import SignInRule
from chalicelib.model.sign_in import managed_apps, signing_keys
from edge.sign_in.sign_in_records import SignInRecords
from infra.build import browser
from tests.edge.edge_modules import enabled
from tests.edge.sign_in import fake_providers
from tests.edge.sign_in.fake_providers import FakeProviders
from tests.edge.sign_in.samples import module
from tests.edge.sign_in.webhooks.signing import secret_of, sign
from tests.live.edge import module_site
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, Upstream, until
from tests.needs import need
from tests.transports import Client

pytestmark = needs_envoy
NAVIGATES = ("-H", "sec-fetch-mode: navigate")
WEB_SOCKET = ("connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13", "sec-websocket-key: AAAA")
FRAME = b"\x81\x02hi"


@pytest.fixture(scope="module")
def providers() -> Iterator[FakeProviders]:
    with fake_providers.serve() as fake:
        yield fake


@pytest.fixture
def service(edge: Edge, providers: FakeProviders, tmp_path: Path) -> Iterator[None]:
    """Run the sign-in service of the edge's host. Its keys are those of the test's store."""
    providers.reset()
    file = tmp_path / "endpoints.json"
    file.write_text(json.dumps(providers.endpoints()))
    limits = replace(edge.settings.limits, oauth_provider_timeout=2)
    settings = replace(edge.settings, oauth_endpoints=str(file), limits=limits)
    edge.store.sign_in_keys = []

    with module_site.verifying(edge, settings):
        until(lambda: bool(signing_keys.read()))
        edge.store.sign_in_keys = [it.public for it in signing_keys.read()]
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
    found = cookies_in(jar)
    pairs = [f"{name}={value}" for name, value in found.items()]
    for headers in (
        [f"cookie: theme=dark; {pairs[0]};{pairs[1]}; {pairs[-1]}"],
        ["cookie: theme=dark", f"cookie: {'; '.join(pairs)}"],  # Envoy joins them with a comma
        [f"cookie: theme=dark;\t{pairs[0]}; {pairs[-1]}"],
    ):
        told = edge.curl("tools", "--http1.1", *(it for header in headers for it in ("-H", header)))
        assert "theme=dark" in told, headers
        assert "service." not in told, headers
    assert providers.calls.count("google/token") == 1


def test_a_browser_signs_in_and_out(
    edge: Edge, service: None, admin: Client, providers: FakeProviders, origin: int
) -> None:
    need("chromium")
    page = site(edge, admin, "browsed", TunnelGroup(labels={"app": "browsed"}))
    edge.ssh(edge.key(admin.account), "-R", f"app=browsed:80:localhost:{origin}")
    page.put(module(email_domains=["example.com"]))
    until(lambda: edge.status("browsed") == "401")
    names = "--host-resolver-rules=MAP *.tunnels.localhost 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    with browser.opened(names, "--ignore-certificate-errors") as chrome:
        chrome.get(edge.url("browsed", "/inside?x=1"))
        shown = chrome.find_element("tag name", "body").text
        assert shown.startswith("GET /inside?x=1\n")
        assert "tunnel-auth-user-email: ada@example.com" in shown
        assert "service." not in shown
        assert chrome.current_url == edge.url("browsed", "/inside?x=1")
        fetched = "fetch('/again', {method: 'POST'}).then((answer) => arguments[0](answer.status))"
        assert chrome.execute_async_script(fetched) == 200
        assert {(it["httpOnly"], it["secure"], it["sameSite"]) for it in chrome.get_cookies()} == {(True, True, "Lax")}
        assert providers.calls.count("google/token") == 1
        chrome.get(edge.url("browsed", "/_service/sign-out?to=/out"))
        assert chrome.find_element("tag name", "body").text.startswith("GET /out\n")
        assert providers.calls.count("google/token") == 2  # the provider asks nothing


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
    until(lambda: logged(edge, "page")[-2:] == [(200, True), (401, False)])
    log = (edge.settings.directory / "access.log").read_text()
    assert not [it for it in ("ada@example.com", value, "state=", "code=") if it in log]


def logged(edge: Edge, name: str) -> list[tuple[int, bool]]:
    """Return status and `session` of the logged requests for a name, since it has OAuth."""
    lines = (it for it in edge.access_log() if it["host"].startswith(f"{name}.{edge.settings.tunnel_domain}"))
    return [(line["status"], line["session"]) for line in lines if "session" in line]


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


def cookies_in(jar: Path) -> dict[str, str]:
    """Return the cookies of a jar of curl."""
    lines = [line.split("\t") for line in jar.read_text().splitlines() if line.count("\t") == 6]
    return {fields[5]: fields[6] for fields in lines}


def test_switching_it_on_closes_connections_from_before(edge: Edge, service: None, admin: Client) -> None:
    page = site(edge, admin, "before", HttpResponse(body="welcome\n"))
    with edge.connect("before", "http/1.1") as connection:
        assert get(connection, "before") == 200
        page.put(module())
        until(lambda: get(connection, "before") in (0, 421))


def test_a_changed_list_is_obeyed_on_open_connections(edge: Edge, service: None, admin: Client, tmp_path: Path) -> None:
    page = site(edge, admin, "lists", HttpResponse(body="welcome\n"))
    page.put(module())
    until(lambda: edge.status("lists") == "401")
    jar = tmp_path / "jar"
    assert browse(page, jar).endswith("200")
    cookie = "cookie: " + "; ".join(f"{name}={value}" for name, value in cookies_in(jar).items())
    with edge.connect("lists", "http/1.1") as connection:
        assert get(connection, "lists", cookie) == 200
        page.put(module(email_domains=["example.org"]))
        until(lambda: get(connection, "lists", cookie) == 403)
        page.put(module(email_domains=["example.com"]))
        until(lambda: get(connection, "lists", cookie) == 200)


def test_forged_and_foreign_tokens_are_refused(edge: Edge, service: None, admin: Client, tmp_path: Path) -> None:
    page = site(edge, admin, "forged", HttpResponse(body="welcome\n"))
    page.put(module())
    until(lambda: edge.status("forged") == "401")
    jar = tmp_path / "jar"
    assert browse(page, jar).endswith("200")
    rule = page.rule()
    token = cookies_in(jar)[rule.session_cookie]
    claims = jwt.decode(token, options={"verify_signature": False})
    kid = jwt.get_unverified_header(token)["kid"]
    own = ec.generate_private_key(ec.SECP256R1())
    late = {**claims, "exp": int(time.time()) + 7200}
    public = edge.store.sign_in_keys[0]
    forged = [
        jwt.encode(claims, own, "ES256", headers={"kid": kid}),
        jwt.encode(claims, "", "none", headers={"kid": kid}),
        jwt.encode(claims, public["x"] + public["y"], "HS256", headers={"kid": kid}),
        jwt.encode(late, own, "ES256", headers={"kid": kid, "jwk": public}),
        token[:-6] + "AAAAAA",
        "",
    ]
    for value in forged:
        assert edge.status("forged", "-b", f"{rule.session_cookie}={value}") == "401", value
    assert edge.status("forged", "-b", f"{rule.session_cookie}={token}") == "200"
    assert edge.status("forged", "-H", f"authorization: Bearer {token}") == "401"
    assert edge.status("forged", path=f"/?access_token={token}") == "401"
    other = site(edge, admin, "other", HttpResponse(body="other\n"))
    other.put(module())
    until(lambda: edge.status("other") == "401")
    assert edge.status("other", "-b", f"{other.rule().session_cookie}={token}") == "401"


def test_a_session_of_one_route_opens_no_other_route_of_the_edge(
    edge: Edge, service: None, admin: Client, tmp_path: Path
) -> None:
    page = site(edge, admin, "two", HttpResponse(body="welcome\n"))
    page.put(module())
    open_rule, rule = page.rule(), page.add("/other", module("github", email_domains=["other.example"]))
    until(lambda: "/github/" in edge.curl("two", *NAVIGATES, "-w", "%{redirect_url}", path="/other"))
    jar = tmp_path / "jar"
    assert browse(page, jar) == "welcome\n200"
    found = cookies_in(jar)
    every = "; ".join(f"{name}={value}" for name, value in found.items())
    renamed = [
        f"{rule.session_cookie}={found[open_rule.session_cookie]}",
        f"{rule.id_cookie}={found[open_rule.id_cookie]}",
    ]
    assert edge.status("two", "-b", every) == "200"
    for cookie in (every, *renamed):
        assert edge.status("two", "-b", cookie, path="/other") == "401", cookie


def test_a_strange_host_header_begins_no_sign_in_elsewhere(edge: Edge, service: None, admin: Client) -> None:
    page = site(edge, admin, "strange", HttpResponse(body="welcome\n"))
    page.put(module())
    until(lambda: edge.status("strange") == "401")
    host = f"strange.{edge.settings.tunnel_domain}"
    for suffix in (":@evil.example", ":443@evil.example", ":x.evil.example"):
        for version in ("--http1.1", "--http2"):
            answer = edge.curl("strange", version, "-i", *NAVIGATES, "-H", f"host: {host}{suffix}")
            assert "evil" not in answer, answer
            assert " 302" not in answer.partition("\n")[0], answer


def test_a_connection_of_an_edge_with_oauth_is_for_its_hosts_alone(edge: Edge, service: None, admin: Client) -> None:
    """A browser sends requests for all names of a certificate on one connection, and again after a 421."""
    page = site(edge, admin, "shared", HttpResponse(body="welcome\n"))
    page.put(module())
    until(lambda: edge.status("shared") == "401")
    with edge.connect("shared", "http/1.1") as connection:
        for name, path in (("other", "/"), ("other", "/confirm"), ("sign-in", "/callback?state=x")):
            assert get(connection, name, path=path) == 421
        assert get(connection, "shared") == 401
        page.put(None)
        until(lambda: get(connection, "shared") == 421)


def test_a_change_drains_nothing_and_a_stream_ends_after_the_interval(
    edge: Edge, service: None, admin: Client, tmp_path: Path, origin: int
) -> None:
    page = site(edge, admin, "streams", TunnelGroup(labels={"app": "streams"}))
    edge.ssh(edge.key(admin.account), "-R", f"app=streams:80:localhost:{origin}")
    until(lambda: edge.status("streams") == "200")
    page.put(module())
    until(lambda: edge.status("streams") == "401")
    jar = tmp_path / "jar"
    assert browse(page, jar).endswith("200")
    cookie = "cookie: " + "; ".join(f"{name}={value}" for name, value in cookies_in(jar).items())
    with edge.connect("streams", "http/1.1") as refused:
        assert get(refused, "streams", *WEB_SOCKET, path="/echo") == 401
    with edge.connect("streams", "http/1.1") as stream:
        stream.settimeout(30)
        assert get(stream, "streams", *WEB_SOCKET, cookie, path="/echo") == 101
        for domain in ("example.com", "example.org", "example.net"):
            page.put(module(email_domains=["example.com", domain]))
            assert echo(stream) == FRAME
        page.put(module(email_domains=["example.org"]))
        until(lambda: edge.status("streams", "-b", cookie.removeprefix("cookie: ")) == "403")
        assert echo(stream) == FRAME
        page.put(module(auth_check_interval=3))
        edge.settle()  # the service obeys a change before Envoy has the route with the new limit
        with edge.connect("streams", "http/1.1") as short:
            short.settimeout(30)
            assert get(short, "streams", *WEB_SOCKET, cookie, path="/echo") == 101
            began = time.monotonic()
            assert short.recv(1) == b""
            assert time.monotonic() - began > 2
        assert echo(stream) == FRAME


def test_a_change_at_one_route_leaves_streams_of_another_route_alone(
    edge: Edge, service: None, admin: Client, tmp_path: Path, origin: int
) -> None:
    page = site(edge, admin, "calm", TunnelGroup(labels={"app": "calm"}))
    edge.ssh(edge.key(admin.account), "-R", f"app=calm:80:localhost:{origin}")
    until(lambda: edge.status("calm") == "200")
    page.put(module())
    page.add("/e", module("github"))
    until(lambda: "/github/" in edge.curl("calm", *NAVIGATES, "-w", "%{redirect_url}", path="/echo"))
    jar = tmp_path / "jar"
    assert browse(page, jar, path="/else").endswith("200")
    cookie = "cookie: " + "; ".join(f"{name}={value}" for name, value in cookies_in(jar).items())
    changes: list[tuple[dict[str, Any] | None, str]] = [
        (module(options_passthrough=True), "501"),  # of the upstream
        (module("gitlab"), "401"),
        (None, "501"),
        (module(auth_check_interval=3), "401"),
    ]
    with contextlib.ExitStack() as opened:
        stream, idle, download = (opened.enter_context(edge.connect("calm", "http/1.1")) for _ in range(3))
        assert get(stream, "calm", *WEB_SOCKET, cookie, path="/echo") == 101
        assert get(idle, "calm", cookie, path="/else") == 200
        events = begin(download, "calm", cookie, path="/events")
        for number, (changed, status) in enumerate(changes):
            if number < 3:
                assert [events.readline(), events.readline()] == [b"data: %d\n" % number, b"\n"]
            page.put(changed)
            until(lambda status=status: edge.status("calm", "-X", "OPTIONS") == status)  # type: ignore[misc]
            assert echo(stream) == FRAME
            assert get(idle, "calm", cookie, path="/else") == 200
            Upstream.come.release()
        assert events.read() == b""


def test_a_route_with_webhooks_requires_a_session_and_a_signature(
    edge: Edge, service: None, admin: Client, tmp_path: Path
) -> None:
    page = site(edge, admin, "both", HttpResponse(body="welcome\n"))
    page.put({"provider": "GITHUB", "secret": secret_of("GITHUB")}, "webhook_verification")
    page.put(module(options_passthrough=True))
    until(lambda: edge.status("both", path="/_service/sign-in") == "302")
    jar = tmp_path / "jar"
    assert edge.status("both", *NAVIGATES) == "403"  # a webhook does not sign in
    assert browse(page, jar, path="/_service/sign-in?to=/").endswith("403")  # signed in, and no webhook
    cookies = "; ".join(f"{name}={value}" for name, value in cookies_in(jar).items())
    rule, body = page.rule(), b'{"event": "push"}'
    ((name, value),) = sign("GITHUB", body, int(time.time()))
    session, webhook = ("-b", cookies), ("-H", f"{name}: {value.decode()}", "--data-binary", body.decode())
    forged = ("-H", f"{name}: sha256={'0' * 64}", "--data-binary", body.decode())
    only_envoy = ("-b", f"{rule.session_cookie}={cookies_in(jar)[rule.session_cookie]}")
    only_id = ("-b", f"{rule.id_cookie}={cookies_in(jar)[rule.id_cookie]}")
    for given in (session, only_envoy, only_id):
        assert edge.status("both", *given, *webhook) == "200", given
        assert edge.status("both", *given, *forged) == "403", given
        assert edge.status("both", *given, "-X", "POST") == "403", given
    assert edge.status("both", *webhook) == "401"
    assert edge.status("both", "-b", f"{only_envoy[1][:-4]}AAAA", *webhook) == "401"
    assert edge.status("both", "-X", "OPTIONS") == "403"  # passes without a session, and not without a signature
    page.put(None)
    until(lambda: edge.status("both", *webhook) == "200")
    assert edge.status("both", *session, *forged) == "403"


def test_intervals_end_access_and_a_provider_that_answers_returns_it(
    edge: Edge, service: None, admin: Client, providers: FakeProviders, tmp_path: Path
) -> None:
    modules = {
        "twitch": module("twitch", inactivity_timeout=4),
        "google": module("google", email_domains=["example.com"], auth_check_interval=4),
        "gitlab": module("gitlab", auth_check_interval=4),
    }
    cookies = {}
    for name, own in modules.items():
        page = site(edge, admin, name, HttpResponse(body="welcome\n"))
        page.put(own)
        until(lambda name=name: edge.status(name) == "401")  # type: ignore[misc]
        assert browse(page, tmp_path / name).endswith("200")
        cookies[name] = "; ".join(f"{key}={value}" for key, value in cookies_in(tmp_path / name).items())

    def status(name: str) -> str:
        return edge.status(name, "-b", cookies[name])

    providers.people["google"] = fake_providers.Person(email="ada@example.org")
    providers.silent.add("gitlab")
    until(lambda: status("google") == "403", within=8)
    until(lambda: status("gitlab") == "503", within=8)
    providers.silent.clear()
    until(lambda: status("gitlab") == "200")
    assert status("twitch") == "401"  # no request has come within its four seconds


def test_options_pass_if_the_module_says_so(edge: Edge, service: None, admin: Client) -> None:
    page = site(edge, admin, "cors", HttpResponse(body="welcome\n"))
    page.put(module(options_passthrough=True))
    until(lambda: edge.status("cors") == "401")
    assert edge.status("cors", "-X", "OPTIONS") == "200"
    assert edge.status("cors", "-X", "POST", "-H", "x-http-method-override: OPTIONS") == "401"
    page.put(module(options_passthrough=False))
    until(lambda: edge.status("cors", "-X", "OPTIONS") == "401")


def test_paths_of_the_service_reach_no_upstream(edge: Edge, service: None, admin: Client) -> None:
    page = site(edge, admin, "paths", HttpResponse(body="welcome\n"))
    page.put(module())
    until(lambda: edge.status("paths") == "401")
    for path in ("/_service/", "/_service/callback", "/_service/other", "/_service/sign-out/x"):
        assert edge.status("paths", path=path) in ("404", "400"), path
    assert edge.status("paths", path="/_service/sign-in?to=//evil.example") == "302"
    assert edge.status("sign-in", path="/callback?state=x") == "400"
    assert edge.status("sign-in", path="/other") == "404"


def test_without_the_service_sessions_go_on_and_all_else_is_closed(
    edge: Edge, service: None, admin: Client, tmp_path: Path
) -> None:
    page = site(edge, admin, "alone", HttpResponse(body="welcome\n"))
    page.put(module())
    until(lambda: edge.status("alone") == "401")
    jar = tmp_path / "jar"
    assert browse(page, jar).endswith("200")
    rule = page.rule()
    cookie = f"{rule.session_cookie}={cookies_in(jar)[rule.session_cookie]}"
    edge.settings.sign_in_socket.rename(tmp_path / "away")
    assert edge.status("alone", "-b", cookie) == "200"


def test_a_managed_application_opens_its_routes_within_eight_seconds(
    edge: Edge, service: None, admin: Client, tmp_path: Path
) -> None:
    page = site(edge, admin, "managed", HttpResponse(body="inside"))
    page.put(module("google", client_id="", client_secret=""))
    until(lambda: edge.status("managed") == "503")
    assert "set client_id" not in edge.curl("managed")  # the sentence is in the status of the edge
    managed_apps.set_app("google", "app", "very secret")
    edge.store.managed_apps.add("google")
    until(lambda: edge.status("managed", *NAVIGATES) == "302", within=8)
    found = edge.curl("managed", *NAVIGATES, "-w", "%{redirect_url}")
    assert "sign-in.tunnels.localhost" in found
    assert "/confirm?state=" in found
