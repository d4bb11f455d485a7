"""OAuth at a real edge: Envoy, the sign-in service, fake providers, and curl as the browser."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chalicelib.model.edges.backends import HttpResponse, TunnelGroup
from infra.build import browser
from tests.edge.sign_in import fake_providers
from tests.edge.sign_in.fake_providers import FakeProviders
from tests.edge.sign_in.samples import module
from tests.edge.sign_in.webhooks.signing import secret_of, sign
from tests.live.edge import oauth_site
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.oauth_site import FRAME, NAVIGATES, WEB_SOCKET, begin, browse, cookies_in, echo, get, site
from tests.live.edge.running import Edge, Upstream, until
from tests.needs import need
from tests.transports import Client

pytestmark = needs_envoy


@pytest.fixture(scope="module")
def providers() -> Iterator[FakeProviders]:
    with fake_providers.serve() as fake:
        yield fake


@pytest.fixture
def service(edge: Edge, providers: FakeProviders, tmp_path: Path) -> Iterator[None]:
    with oauth_site.signing_in(edge, providers, tmp_path):
        yield


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
    page = browse(group, jar, "-b", "theme=dark", path="/inside?x=1")

    assert "GET /inside?x=1" in page
    assert "tunnel-auth-user-email: ada@example.com" in page
    assert "tunnel-auth-provider: google" in page
    again = browse(group, jar, "-H", "tunnel-auth-user-email: evil@example.com", path="/again")
    assert again.endswith("200")
    assert "tunnel-auth-user-email: ada@example.com" in again
    assert "evil" not in again
    assert "service." not in again  # none of the cookies reaches the upstream
    cookies = cookies_in(jar)
    pairs = [f"{name}={value}" for name, value in cookies.items()]
    for headers in (
        [f"cookie: theme=dark; {pairs[0]};{pairs[1]}; {pairs[-1]}"],
        ["cookie: theme=dark", f"cookie: {'; '.join(pairs)}"],  # Envoy joins them with a comma
        [f"cookie: theme=dark;\t{pairs[0]}; {pairs[-1]}"],
    ):
        response = edge.curl("tools", "--http1.1", *(argument for header in headers for argument in ("-H", header)))
        assert "theme=dark" in response, headers
        assert "service." not in response, headers
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
        text = chrome.find_element("tag name", "body").text
        assert text.startswith("GET /inside?x=1\n")
        assert "tunnel-auth-user-email: ada@example.com" in text
        assert "service." not in text
        assert chrome.current_url == edge.url("browsed", "/inside?x=1")
        fetched = "fetch('/again', {method: 'POST'}).then((answer) => arguments[0](answer.status))"
        assert chrome.execute_async_script(fetched) == 200
        assert {(cookie["httpOnly"], cookie["secure"], cookie["sameSite"]) for cookie in chrome.get_cookies()} == {
            (True, True, "Lax")
        }
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
    until(lambda: list_logged(edge, "page")[-2:] == [(200, True), (401, False)])
    log = (edge.settings.directory / "access.log").read_text()
    assert not [text for text in ("ada@example.com", value, "state=", "code=") if text in log]


def list_logged(edge: Edge, name: str) -> list[tuple[int, bool]]:
    """Return status and `session` of the logged requests for a name, since it has OAuth."""
    lines = (line for line in edge.access_log() if line["host"].startswith(f"{name}.{edge.settings.tunnel_domain}"))
    return [(line["status"], line["session"]) for line in lines if "session" in line]


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
    with edge.connect("streams", "http/1.1") as connection:
        assert get(connection, "streams", *WEB_SOCKET, path="/echo") == 401
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
            start = time.monotonic()
            assert short.recv(1) == b""
            assert time.monotonic() - start > 2
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
    with contextlib.ExitStack() as stack:
        stream, idle, download = (stack.enter_context(edge.connect("calm", "http/1.1")) for _ in range(3))
        assert get(stream, "calm", *WEB_SOCKET, cookie, path="/echo") == 101
        assert get(idle, "calm", cookie, path="/else") == 200
        events = begin(download, "calm", cookie, path="/events")
        for number, (changed_module, status) in enumerate(changes):
            if number < 3:
                assert [events.readline(), events.readline()] == [b"data: %d\n" % number, b"\n"]
            page.put(changed_module)
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
    for arguments in (session, only_envoy, only_id):
        assert edge.status("both", *arguments, *webhook) == "200", arguments
        assert edge.status("both", *arguments, *forged) == "403", arguments
        assert edge.status("both", *arguments, "-X", "POST") == "403", arguments
    assert edge.status("both", *webhook) == "401"
    assert edge.status("both", "-b", f"{only_envoy[1][:-4]}AAAA", *webhook) == "401"
    assert edge.status("both", "-X", "OPTIONS") == "403"  # passes without a session, and not without a signature
    page.put(None)
    until(lambda: edge.status("both", *webhook) == "200")
    assert edge.status("both", *session, *forged) == "403"


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
    edge: Edge, admin: Client, providers: FakeProviders, tmp_path: Path
) -> None:
    page, jar = site(edge, admin, "alone", HttpResponse(body="welcome\n")), tmp_path / "jar"
    with oauth_site.signing_in(edge, providers, tmp_path):
        page.put(module())
        until(lambda: edge.status("alone") == "401")
        assert browse(page, jar).endswith("200")
        rule, cookies = page.rule(), cookies_in(jar)
    token, id = (f"{name}={cookies[name]}" for name in (rule.session_cookie, rule.id_cookie))
    assert edge.status("alone", "-b", token) == "200"
    assert edge.status("alone", "-b", id) == "503"
    assert [
        edge.status("alone", *arguments) for arguments in (NAVIGATES, ("-X", "POST"), ("-b", f"{token[:-4]}AAAA"))
    ] == ["503"] * 3
    assert edge.status("alone", path="/_service/sign-in") == edge.status("sign-in", path="/callback") == "503"
