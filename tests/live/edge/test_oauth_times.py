"""How fast access begins and ends at a real edge, and which sign-ins a silent provider delays."""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from chalicelib.model.edges.backends import HttpResponse
from tests.edge.sign_in import fake_providers
from tests.edge.sign_in.fake_providers import FakeProviders, Person
from tests.edge.sign_in.samples import module
from tests.live.edge import oauth_site
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.oauth_site import NAVIGATES, PROVIDER_TIMEOUT, browse, cookies_in, get, site
from tests.live.edge.running import Edge, until
from tests.transports import Client

pytestmark = needs_envoy
SPEED = 2  # seconds until a changed module applies, and after an interval until access has ended
INTERVAL = 4


@pytest.fixture(scope="module")
def providers() -> Iterator[FakeProviders]:
    with fake_providers.serve() as fake:
        yield fake


@pytest.fixture
def service(edge: Edge, providers: FakeProviders, tmp_path: Path) -> Iterator[None]:
    with oauth_site.signing_in(edge, providers, tmp_path):
        yield


def test_switching_it_on_closes_connections_from_before(edge: Edge, service: None, admin: Client) -> None:
    page = site(edge, admin, "before", HttpResponse(body="welcome\n"))
    with edge.connect("before", "http/1.1") as connection:
        assert get(connection, "before") == 200
        page.put(module())
        until(lambda: get(connection, "before") in (0, 421), within=SPEED)


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
        until(lambda: get(connection, "lists", cookie) == 403, within=SPEED)
        page.put(module(email_domains=["example.com"]))
        until(lambda: get(connection, "lists", cookie) == 200, within=SPEED)


@dataclass
class Visitor:
    """Requests a page again and again on one connection, and records since when it has each status."""

    edge: Edge
    name: str
    cookies: Sequence[str]
    path: str = "/"
    source: str = ""
    began: float = 0.0
    changes: list[tuple[int, float]] = field(default_factory=list)

    def visit(self, is_over: threading.Event) -> None:
        with self.edge.connect(self.name, "http/1.1", source=self.source) as connection:
            connection.settimeout(30)
            while not is_over.wait(0.1):
                status = get(connection, self.name, f"cookie: {'; '.join(self.cookies)}", path=self.path)
                if not self.changes or self.changes[-1][0] != status:
                    self.changes.append((status, time.monotonic()))

    @property
    def statuses(self) -> list[int]:
        return [status for status, _ in self.changes]


@contextlib.contextmanager
def visiting(*visitors: Visitor) -> Iterator[None]:
    is_over = threading.Event()
    with ThreadPoolExecutor(len(visitors)) as pool:
        visits = [pool.submit(visitor.visit, is_over) for visitor in visitors]
        try:
            yield
        finally:
            is_over.set()
        for visit in visits:
            visit.result()


def sign_in(edge: Edge, admin: Client, jars: Path, name: str, module: dict[str, Any]) -> list[str]:
    """Sign in at a new site with a module. Return the cookies: first the session id, then the session token."""
    page = site(edge, admin, name, HttpResponse(body="welcome\n"))
    page.put(module)
    until(lambda: edge.status(name) == "401")
    assert browse(page, jars / name).endswith("200")
    rule, cookies = page.rule(), cookies_in(jars / name)
    return [f"{name}={cookies[name]}" for name in (rule.id_cookie, rule.session_cookie)]


def test_access_ends_with_its_intervals_and_returns_when_the_provider_answers(
    edge: Edge, service: None, admin: Client, providers: FakeProviders, tmp_path: Path
) -> None:
    def enter(name: str, module: dict[str, Any]) -> list[Visitor]:
        """Sign in, and visit with all cookies, with the session id alone, and with the session token alone."""
        cookies = sign_in(edge, admin, tmp_path, name, module)
        visitors = [
            Visitor(edge, name, sent_cookies, began=time.monotonic())
            for sent_cookies in (cookies, cookies[:1], cookies[1:])
        ]
        stack.enter_context(visiting(*visitors))
        return visitors

    idle = sign_in(edge, admin, tmp_path, "idle", module("amazon", inactivity_timeout=INTERVAL))
    with contextlib.ExitStack() as stack:
        start = time.monotonic()
        constant = enter("constant", module("github", inactivity_timeout=INTERVAL, auth_check_interval=INTERVAL))
        longest = enter("longest", module("linkedin", maximum_duration=INTERVAL))
        lost = enter("lost", module("google", email_domains=["example.com"], auth_check_interval=INTERVAL))
        providers.people["google"] = Person(email="ada@example.org")
        revoked = enter("revoked", module("twitch", auth_check_interval=INTERVAL))
        providers.revoked.add("twitch")
        silent = enter("silent", module("gitlab", auth_check_interval=INTERVAL))
        providers.silent.add("gitlab")
        until(lambda: all(visitor.statuses[1:] for visitor in (*longest, *lost, *revoked, *silent)))
        assert [edge.status("idle", "-b", cookie) for cookie in ("; ".join(idle), *idle)] == ["401"] * 3
        answered_at = time.monotonic()
        providers.silent.clear()
        until(lambda: all(visitor.statuses[2:] for visitor in silent[:2]))
    assert [visitor.statuses for visitor in (*longest, *revoked)] == [[200, 401]] * 6
    assert [visitor.statuses for visitor in lost] == [[200, 403], [200, 403], [200, 401]]
    assert [visitor.statuses for visitor in silent] == [[200, 503, 200], [200, 503, 200], [200, 401]]
    assert [visitor.statuses for visitor in constant] == [[200], [200], [200, 401]]
    for visitor in (*longest, *lost, *revoked, *silent):
        assert visitor.changes[1][1] < visitor.began + INTERVAL + SPEED, visitor
    for visitor in silent[:2]:
        assert visitor.changes[2][1] < answered_at + PROVIDER_TIMEOUT + SPEED, visitor
    assert Counter(call for call in providers.calls if call.endswith("/authorize")).most_common(1)[0][1] == 1
    rounds = (time.monotonic() - start) / (INTERVAL * 3 / 4)  # besides the round of the sign-in
    assert 1 < providers.calls.count("github/api/user") <= 1 + rounds


def test_a_silent_provider_of_one_account_stops_no_sign_in_of_another(
    edge: Edge, service: None, admin: Client, stranger: Client, providers: FakeProviders, tmp_path: Path
) -> None:
    slow = site(edge, admin, "slow", HttpResponse(body="welcome\n"))
    other = site(edge, stranger, "quick", HttpResponse(body="welcome\n"))
    slow.put(module("github"))
    other.put(module("google"))
    until(lambda: [edge.status(name) for name in ("slow", "quick")] == ["401", "401"])
    url = edge.curl("slow", *NAVIGATES, "-c", str(tmp_path / "slow"), "-o", "/dev/null", "-w", "%{redirect_url}")
    (state,), ((name, value),) = parse_qs(urlsplit(url).query)["state"], cookies_in(tmp_path / "slow").items()
    callback = f"/_service/callback?code=x&state={state}"
    visitors = [Visitor(edge, "slow", [f"{name}={value}"], callback, "127.0.0.2") for _ in range(12)]
    providers.silent.add("github")
    with visiting(*visitors):
        until(lambda: providers.calls.count("github/token") == 8)  # more are not permitted for an address
        for number in range(3):
            assert browse(other, tmp_path / str(number), "--interface", "127.0.0.3") == "welcome\n200"
        until(lambda: all(visitor.changes for visitor in visitors))
    assert {status for visitor in visitors for status in visitor.statuses} == {503}
