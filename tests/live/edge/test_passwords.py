"""Passwords at a real edge: which requests pass, how many wrong ones a visitor may send, and attempts to pass."""

import base64
import itertools
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPResponse
from random import Random

import pytest

from tests.live.edge import module_site
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.module_site import Lines, Origin, Site
from tests.live.edge.running import Edge, until
from tests.transports import Client

pytestmark = needs_envoy
Users = Mapping[str, str]
ADA: Users = {"ada": "correct horse"}
ROUTES: Mapping[str, Users] = {
    "one": ADA,
    "two": {"ada": "another horse", "grace": "p:ss wörd"},
    "ten": {f"user {number}": f"password {number}" for number in range(10)},
}


def module(users: Users) -> dict[str, object]:
    return {"credentials": [{"username": name, "password": password} for name, password in users.items()]}


def basic(username: str, password: str, scheme: str = "Basic") -> tuple[str, bytes]:
    return "authorization", f"{scheme} {base64.b64encode(f'{username}:{password}'.encode()).decode()}".encode()


@pytest.fixture
def service(edge: Edge) -> Iterator[None]:
    with module_site.verifying(edge, edge.settings):
        yield


@pytest.fixture
def site(edge: Edge, admin: Client, service: None, request: pytest.FixtureRequest) -> Iterator[Site]:
    name, values = (
        f"pass{abs(hash(request.node.name)) % 100_000}",
        {path: module(users) for path, users in ROUTES.items()},
    )
    with module_site.serving(edge, admin, name, "basic_auth", values) as site:
        Origin.authorizations.clear()
        yield site


@dataclass(frozen=True)
class Case:
    """A request of a visitor, and what the model says of it."""

    path: str
    lines: Lines
    source: str
    passes: bool


def draw(chance: Random, number: int) -> Case:
    """Draw a request. One visitor in three comes again and again, and always knows a password."""
    path = chance.choice([*ROUTES])
    username, password = chance.choice([*ROUTES[path].items()])
    if chance.random() < 0.4:
        return Case(path, [basic(username, password)], f"127.3.0.{chance.randrange(1, 9)}", True)
    source = f"127.4.{number // 250}.{number % 250 + 1}"
    wrong = chance.choice([password[:-1], password + " ", password.swapcase(), "", "x" * 128])
    other = chance.choice([user for users in ROUTES.values() for user in users.items()])
    lines: Lines = chance.choice(
        [
            [basic(username, password, chance.choice(["Basic", "basic", "BASIC", "bAsIc"]))],
            [basic(username, password), ("cookie", b"a=b")],
            [basic(username, wrong)],
            [basic(*other)],
            [basic(username.upper(), password)],
            [basic("", password)],
            [basic(username, password, "Bearer")],
            [("authorization", f"Basic {username}:{password}".encode())],
            [("x-authorization", basic(username, password)[1])],
            [],
        ]
    )
    return Case(path, lines, source, _passes(ROUTES[path], lines))


def _passes(users: Users, lines: Lines) -> bool:
    """Return whether a request has the password of a user, by the words of RFC 7617."""
    authorization = next((value.decode() for name, value in lines if name == "authorization"), "")
    scheme, _, encoded = authorization.partition(" ")
    credentials = {base64.b64encode(f"{name}:{password}".encode()).decode() for name, password in users.items()}
    return scheme.lower() == "basic" and encoded in credentials


def test_a_thousand_requests_pass_as_the_model_says(site: Site) -> None:
    chance = Random(50)
    cases = [draw(chance, number) for number in range(1000)]
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda case: site.send(f"/{case.path}", case.lines, source=case.source)[0], cases))
    wrong = [
        (case, status) for case, status in zip(cases, answers, strict=True) if status != (200 if case.passes else 401)
    ]
    assert wrong == []
    assert 400 < sum(case.passes for case in cases) < 800
    assert Origin.authorizations == [None] * sum(case.passes for case in cases)


def attempts() -> Iterator[tuple[str, int, bytes, str]]:
    """Yield attempts to pass without a password: the status, what is sent on a connection, and its method."""

    def get(path: str, lines: Lines = (), method: str = "GET") -> bytes:
        return f"{method} {path} HTTP/1.1\r\nhost: HOST\r\n".encode() + module_site.encode(lines) + b"\r\n"

    right, wrong = basic("ada", "correct horse"), basic("ada", "wrong horse")
    plain = base64.b64encode(b"ada:correct horse").decode()
    for method in ("GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "TRACE", "PROPFIND"):
        yield f"no password, {method}", 401, get("/one", method=method), method
    yield "an empty header", 401, get("/one", [("authorization", b"")]), "GET"
    yield "a scheme alone", 401, get("/one", [("authorization", b"Basic")]), "GET"
    yield "no colon", 401, get("/one", [("authorization", b"Basic " + base64.b64encode(b"ada"))]), "GET"
    yield "no base64", 401, get("/one", [("authorization", b"Basic ada:correct horse")]), "GET"
    yield (
        "base64 with a newline",
        401,
        get("/one", [("authorization", f"Basic {plain[:4]}\t{plain[4:]}".encode())]),
        "GET",
    )
    yield "base64 twice", 401, get("/one", [basic("", plain)]), "GET"
    yield "another scheme", 401, get("/one", [basic("ada", "correct horse", "Digest")]), "GET"
    yield "a wrong header first", 401, get("/one", [wrong, right]), "GET"
    yield "a wrong header last", 401, get("/one", [right, wrong]), "GET"
    yield "two in one header", 401, get("/one", [("authorization", wrong[1] + b", " + right[1])]), "GET"
    yield "a proxy's header", 401, get("/one", [("proxy-authorization", right[1])]), "GET"
    yield "a header with _", 401, get("/one", [("authorization_", right[1])]), "GET"
    yield "the password of another route", 401, get("/one", [basic("ada", "another horse")]), "GET"
    yield "another method in a header", 401, get("/one", [("x-http-method-override", b"OPTIONS")]), "GET"
    yield "another path in a header", 401, get("/one", [("x-original-url", b"/open")]), "GET"
    yield "metadata of the edge", 401, get("/one", [("x-envoy-known", b"true"), ("known", b"true")]), "GET"
    upgrade = [("connection", b"upgrade"), ("upgrade", b"websocket"), ("sec-websocket-version", b"13")]
    yield "a WebSocket", 401, get("/one", [*upgrade, ("sec-websocket-key", b"AAAA")]), "GET"
    yield "a password in the path", 401, get("/one?authorization=Basic%20" + plain), "GET"
    for path in ("//one", "/open/../one", "/%6fne", "/open/%2e%2e/one", "/open\\..\\one", "/open;/../one"):
        yield f"the path {path}", 400, get(path), "GET"
    absolute = b"GET https://ada:correct%20horse@HOST/one HTTP/1.1\r\nhost: HOST\r\n\r\n"
    yield "a password in the address", 401, absolute, "GET"


def test_no_attempt_passes(site: Site) -> None:
    all_attempts = list(attempts())
    assert len(all_attempts) >= 30
    sources = (f"127.5.0.{number}" for number in itertools.count(1))
    statuses = [
        (label, site.send_raw(request.replace(b"HOST", site.host.encode()), method, next(sources))[0])
        for label, _, request, method in all_attempts
    ]
    assert statuses == [(label, status) for label, status, _, _ in all_attempts]
    assert Origin.bodies == []


def test_no_attempt_passes_by_http2(site: Site, origin: int) -> None:
    edge = site.edge
    edge.ssh(edge.key(site.admin.account), "-R", f"beside{site.name}:80:localhost:{origin}")
    until(lambda: edge.status(f"beside{site.name}") == "200")
    name, value = basic("ada", "correct horse")
    right = ("-H", f"{name}: {value.decode()}")
    assert edge.status(site.name, "--http2", path="/one") == "401"
    assert edge.status(site.name, "--http2", "--path-as-is", path="/open/../one") == "400"
    assert edge.status(f"beside{site.name}", "--http2", "-H", f"host: {site.host}", path="/one") == "421"
    assert Origin.bodies == []
    assert edge.status(site.name, "--http2", *right, path="/one") == "200"


def test_wrong_passwords_stop_their_visitor_only(site: Site) -> None:
    """The visitor of 127.6.0.1 guesses, with two threads of Envoy, beside one with a password that passed."""
    right = [basic("ada", "correct horse")]
    assert site.send("/one", right, source="127.6.0.2")[0] == 200
    start = time.monotonic()
    statuses = [site.send("/one", [basic("ada", f"guess {number}")], source="127.6.0.1")[0] for number in range(20)]
    assert statuses[:10] == [401] * 10
    assert statuses.count(401) <= 11 + (time.monotonic() - start) / 6
    until(lambda: _is_stopped(site, "127.6.0.1"))  # the visitor does not learn that a password is right
    assert site.send("/one", [], source="127.6.0.1")[0] == 401
    assert site.send("/two", [basic("ada", "another horse")], source="127.6.0.1")[0] == 200
    assert [site.send("/one", right, source=f"127.6.0.{number}")[0] for number in (2, 3, 2, 3)] == [200] * 4


def test_guesses_at_once_are_counted(site: Site) -> None:
    with ThreadPoolExecutor(16) as threads:
        guesses = [[basic("ada", f"guess {number}")] for number in range(60)]
        statuses = list(threads.map(lambda lines: site.send("/one", lines, source="127.6.1.1")[0], guesses))
    assert statuses.count(401) <= 10
    assert set(statuses) <= {401, 429, 503}


def test_a_password_that_passed_does_not_help_to_guess(site: Site) -> None:
    """Two people share an address. While one of them guesses, the other's password is not accepted either."""
    right = [basic("ada", "correct horse")]
    assert {site.send("/one", right, source="127.6.2.1")[0] for _ in range(20)} == {200}
    for number in range(20):
        site.send("/one", [basic("ada", f"guess {number}")], source="127.6.2.1")
    until(lambda: all(_is_stopped(site, "127.6.2.1") for _ in range(4)))


def _is_stopped(site: Site, source: str) -> bool:
    """Return whether a visitor gets the same answer for a wrong password and directly after it for a right one."""
    lines = [basic("ada", "one more guess")], [basic("ada", "correct horse")]
    return [site.send("/one", headers, source=source)[0] for headers in lines] == [429, 429]


def test_a_change_is_obeyed_on_open_connections(site: Site) -> None:
    right = [basic("ada", "correct horse")]
    with site.edge.connect(site.name) as connection:

        def status(lines: Lines) -> int:
            head = f"GET /one HTTP/1.1\r\nhost: {site.host}\r\n".encode()
            connection.sendall(head + module_site.encode(lines) + b"\r\n")
            answer = HTTPResponse(connection)
            answer.begin()
            answer.read()
            return answer.status

        assert [status(right) for _ in range(3)] == [200] * 3
        site.put("one", module({"ada": "a new password"}))
        until(lambda: status(right) == 401, within=2)
        assert status([basic("ada", "a new password")]) == 200
        site.put("one", {**module(ADA), "enabled": False})
        until(lambda: status([]) == 200, within=2)
        site.put("one", module(ADA))
        until(lambda: status([]) == 401, within=2)
        assert status(right) == 200


def test_without_the_service_only_visitors_that_it_knows_pass(edge: Edge, admin: Client) -> None:
    right = [basic("ada", "correct horse")]
    with module_site.serving(edge, admin, "closed", "basic_auth", {"one": module(ADA)}) as site:
        with module_site.verifying(edge, edge.settings):
            assert {site.send("/one", right)[0] for _ in range(20)} == {200}  # by each thread of Envoy
        assert site.send("/one", right)[0] == 200
        assert site.send("/one", right, source="127.6.3.1")[0] == 503
        assert site.send("/one", [basic("ada", "wrong horse")])[0] == 503
        assert site.send("/one", [])[0] == 503
        assert site.send("/open", [])[0] == 200


def test_a_tunnel_of_a_reserved_domain_needs_a_password(edge: Edge, admin: Client, service: None, origin: int) -> None:
    domain = f"secret.{edge.settings.tunnel_domain}"
    reservation_id = admin.create("/reserved_domains", {"domain": domain})["id"]

    def set_module(body: dict[str, object]) -> None:
        assert admin.put(f"/reserved_domains/{reservation_id}/basic_auth", body).status == 200
        edge.settle()

    edge.ssh(edge.key(admin.account), "-R", f"secret:80:localhost:{origin}")
    until(lambda: edge.status("secret") == "200")
    set_module(module(ADA))
    assert edge.status("secret") == "401"
    assert [edge.status("secret", "-u", "ada:correct horse", version) for version in ("--http1.1", "--http2")] == [
        "200"
    ] * 2
    assert edge.status("secret", "-u", "ada:wrong horse") == "401"
    set_module(module({"ada": "a new password"}))
    assert edge.status("secret", "-u", "ada:correct horse") == "401"
    set_module({**module(ADA), "enabled": False})
    assert edge.status("secret") == "200"
