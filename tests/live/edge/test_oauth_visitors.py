"""Visitors of routes with OAuth at a real edge: users of all providers, what upstreams learn, and attempts to pass."""

import base64
import contextlib
import itertools
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from email.message import Message
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from chalicelib.model.sign_in import signing_keys
from edge.sign_in.provider.provider_table import PROVIDERS
from edge.sign_in.session import keys
from tests.edge.sign_in import fake_providers
from tests.edge.sign_in.fake_providers import FakeProviders, Person
from tests.edge.sign_in.samples import module
from tests.live.edge import module_site, oauth_site
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.module_site import Lines, Origin, Site
from tests.live.edge.oauth_browser import Browser
from tests.live.edge.oauth_site import NAVIGATES
from tests.live.edge.running import Edge, until, upstream
from tests.transports import Client

pytestmark = needs_envoy
ADA = {
    "tunnel-auth-user-email": ["ada@example.com"],
    "tunnel-auth-user-id": ["4711"],
    "tunnel-auth-user-name": ["Ada Lovelace"],
}
EVE = Person(id="666", name="Eve", email="eve@example.com")
NUMBERS = itertools.count()
UNVERIFIED = {
    **dict.fromkeys(("github", "google", "gitlab", "linkedin", "twitch"), Person(verified=False)),
    "microsoft": Person(claims={"preferred_username": "eve_evil.example#EXT#@acme.onmicrosoft.com"}),
}


@pytest.fixture(scope="module")
def providers() -> Iterator[FakeProviders]:
    with fake_providers.serve() as fake:
        yield fake


def test_users_of_all_providers_arrive_and_others_do_not(
    edge: Edge, admin: Client, providers: FakeProviders, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    modules = {name: module(name, email_addresses=["ada@example.com"]) for name in PROVIDERS}
    browsers = {name: Browser(edge) for name in PROVIDERS}
    with (
        oauth_site.signing_in(edge, providers, tmp_path),
        module_site.serving(edge, admin, "eight", "oauth", modules) as site,
    ):
        until(lambda: edge.status(site.name, path="/amazon") == "401")
        Origin.requests.clear()
        for name, browser in browsers.items():
            answer = browser.open(site.name, f"/{name}/inside?x=1")
            assert (answer.status_code, answer.url.path, answer.url.query) == (200, f"/{name}/inside", b"x=1")
        assert [user_of(request) for request in Origin.requests] == [
            {"tunnel-auth-provider": [name], **ADA} for name in PROVIDERS
        ]
        Origin.requests.clear()
        refused_people = [*dict.fromkeys(PROVIDERS, EVE).items(), *UNVERIFIED.items()]
        for name, person in refused_people:
            providers.people[name] = person
            assert Browser(edge).open(site.name, f"/{name}/inside").status_code == 403, name
        assert Origin.requests == []
        until(lambda: sum(line["status"] == 403 for line in edge.access_log()) == len(refused_people))
        assert_nothing_is_revealed(edge, providers, [*browsers.values()], capfd.readouterr().err)


def user_of(headers: Message) -> dict[str, list[str]]:
    """Return what the upstream reads about the user, and cookies."""
    names = sorted({name.lower() for name in headers})
    return {name: headers.get_all(name, []) for name in names if "tunnel" in name or name == "cookie"}


def assert_nothing_is_revealed(edge: Edge, providers: FakeProviders, browsers: Sequence[Browser], log: str) -> None:
    """Search for secrets in what Envoy and the service write, and in what browsers store."""
    command = ["curl", "-sS", "--unix-socket", "admin.sock", "http://envoy/config_dump?include_eds"]
    folder = edge.settings.directory
    dump = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    assert "sign-in/" in dump  # with the settings of the filters
    texts = {
        "dump": dump,
        "log": log,
        **{name: (folder / name).read_text() for name in ("envoy.log", "access.log")},
    }
    stored = {value for browser in browsers for value in browser.cookies.values()}
    queries = [value for browser in browsers for url in browser.addresses for value in parse_qsl(urlsplit(url).query)]
    in_urls = {value for name, value in queries if name in ("code", "state", "nonce", "code_challenge")}
    secrets = {*providers.issued, providers.secret, *private_keys()}
    assert min(len(in_urls), len(stored)) >= 3 * len(browsers)  # codes, states and proofs; three cookies
    assert [
        (file_name, secret)
        for file_name, text in texts.items()
        for secret in secrets | stored | in_urls
        if secret in text
    ] == []
    assert [secret for secret in secrets if any(secret in value for value in stored)] == []
    tokens = [value for browser in browsers for name, value in browser.cookies.items() if "session." in name]
    claims = [jwt.decode(token, options={"verify_signature": False}) for token in tokens]
    names = {"iss", "aud", "iat", "exp", "provider", "user", "email", "name"}
    assert [claim_set.keys() for claim_set in claims] == [names] * len(browsers)
    assert "ada@example.com" not in texts["log"] + texts["access.log"]


def private_keys() -> set[str]:
    """Return the private keys of the service in the forms in which a text could have them."""
    pairs = [keys.unseal(pair) for pair in signing_keys.read()]
    numbers = [pair.private.private_numbers().private_value.to_bytes(32, "big") for pair in pairs]
    data = [*numbers, *(pair.state_key for pair in pairs)]
    encodings = (base64.b64encode, base64.urlsafe_b64encode)
    encoded = {encode(secret).decode().rstrip("=") for secret in data for encode in encodings}
    return {*encoded, *(secret.hex() for secret in data)}


@dataclass(frozen=True)
class Sites:
    """An edge with OAuth routes, one of another account, one without OAuth, and a tunnel."""

    oauth: Site
    foreign: Site
    plain: Site
    tunnel: Site


@pytest.fixture
def sites(edge: Edge, admin: Client, stranger: Client, providers: FakeProviders, tmp_path: Path) -> Iterator[Sites]:
    modules = {
        "app": module("google", email_domains=["example.com"]),
        "two": module("github", email_domains=["example.com"]),
        "short": module("gitlab", maximum_duration=4),
        "cors": module("twitch", options_passthrough=True),
    }
    names = (f"{name}-{next(NUMBERS)}" for name in ("own", "foreign", "plain", "direct"))
    with contextlib.ExitStack() as stack:
        stack.enter_context(oauth_site.signing_in(edge, providers, tmp_path))
        of_admin, of_other = (partial(module_site.serving, edge, owner) for owner in (admin, stranger))
        oauth = stack.enter_context(of_admin(next(names), "oauth", modules))
        foreign = stack.enter_context(of_other(next(names), "oauth", {"app": modules["app"]}))
        plain = stack.enter_context(of_admin(next(names), "oauth", {}))
        port = stack.enter_context(upstream(Origin))
        tunnel = replace(plain, name=next(names))
        edge.ssh(edge.key(admin.account), "-R", f"{tunnel.name}:80:localhost:{port}")
        until(lambda: edge.status(tunnel.name) == "200")
        until(lambda: [edge.status(site.name, path="/app") for site in (oauth, foreign)] == ["401", "401"])
        Origin.requests.clear()
        yield Sites(oauth, foreign, plain, tunnel)


SPELLED: Lines = [
    ("tunnel-auth-user-email", b"eve@example.com"),
    ("Tunnel-Auth-User-Email", b"eve@example.org"),
    ("TUNNEL_AUTH_USER_ID", b"666"),
    ("tunnel.auth.user.name", b"Eve"),
    ("Tunnel-Auth_Provider", b"github"),
    ("tunnel~auth-", b"x"),
    ("tunnel-auth-anything", b"x"),
]


def test_headers_about_the_user_come_from_the_edge_alone(edge: Edge, sites: Sites) -> None:
    browser = Browser(edge)
    assert browser.open(sites.oauth.name, "/app").status_code == 200
    session = cookie(browser.cookies)
    hops = ("connection", b"keep-alive, tunnel-auth-user-email, tunnel-auth-provider")
    ada = {"tunnel-auth-provider": ["google"], **ADA}
    open_paths = [(sites.oauth, "/open"), (sites.plain, "/open"), (sites.tunnel, "/")]
    cases: list[tuple[Site, str, str, Lines, Mapping[str, list[str]]]] = [
        *((site, path, "GET", SPELLED, {}) for site, path in open_paths),
        (sites.oauth, "/cors", "OPTIONS", SPELLED, {}),
        (sites.oauth, "/app", "GET", [*SPELLED, session], ada),
        (sites.oauth, "/app", "GET", [hops, session], ada),
    ]
    for site, path, method, lines, expected in cases:
        Origin.requests.clear()
        status, _ = site.send(path, lines, method=method)
        assert (status, [user_of(request) for request in Origin.requests]) == (200, [expected]), (site.name, path)
    header_arguments = [part for name, value in SPELLED for part in ("-H", f"{name.lower()}: {value.decode()}")]
    chunked = b"transfer-encoding: chunked\r\ntrailer: sum\r\n\r\n2\r\nhi\r\n0\r\n"
    trailers = module_site.encode([*SPELLED, ("sum", b"7")])
    for site, path in open_paths:
        Origin.requests.clear()
        Origin.trailers.clear()
        assert edge.status(site.name, "--http2", *header_arguments, path=path) == "200"
        head = f"POST {path} HTTP/1.1\r\nhost: {site.host}\r\n".encode()
        assert site.send_raw(head + chunked + trailers + b"\r\n") == (200, b"hi")
        assert [user_of(request) for request in Origin.requests] == [{}, {}]
        assert Origin.trailers == [b"sum: 7"]


def cookie(cookies: Mapping[str, str]) -> tuple[str, bytes]:
    """Return the Cookie header."""
    return "cookie", "; ".join(f"{name}={value}" for name, value in cookies.items()).encode()


PATHS = {  # without a session
    "/app": 401,
    "/app?/open": 401,
    "/app/../open": 400,
    "/app;/../open": 400,
    "/app%00": 400,
    "/app#/open": 400,
    "/./app": 400,
    "//app": 400,
    "/%61pp": 400,
    "/APP": 404,
    "/%2fapp": 400,
    "/open/../app": 400,
    "/open/%2e%2e/app": 400,
    "/open/.%2e/app": 400,
    "/open/..%2fapp": 400,
    "/open%2f..%2fapp": 400,
    "/open/..;/app": 400,
    "/open/..\\app": 400,
    "/open/..%5capp": 400,
    "/open/%252e%252e/app": 400,
    "/_service/../app": 404,
    "/_service/%2e%2e/app": 404,
    "/_service//app": 404,
    "/%5fservice/sign-in": 400,
    "https://{host}/app": 401,
    "https://evil.example/app": 421,
}


def test_no_attempt_to_pass_without_a_session_of_the_route_reaches_the_upstream(
    edge: Edge, sites: Sites, providers: FakeProviders
) -> None:
    ada, site = Browser(edge), sites.oauth
    assert ada.open(site.name, "/app").status_code == 200
    token, id = (ada.cookies[f"{kind}.{site.routes['app'][-6:]}"] for kind in ("service.session", "__Host-service.id"))

    def rename_cookies(site: Site, path: str) -> list[Lines]:
        """Return the token and the id of the session with the names that another route expects."""
        suffix = site.routes[path][-6:]
        return [[cookie({f"service.session.{suffix}": token})], [cookie({f"__Host-service.id.{suffix}": id})]]

    other_attempts = [
        *((sites.foreign, "/app", lines) for lines in ([cookie(ada.cookies)], *rename_cookies(sites.foreign, "app"))),
        *((site, "/two", lines) for lines in ([cookie(ada.cookies)], *rename_cookies(site, "two"))),
    ]
    name = f"service.session.{site.routes['app'][-6:]}"
    lines_by_token = {text: [cookie({name: text_token})] for text, text_token in list_tokens(token, sites).items()}
    ids = [("cookie", f"__Host-service.id.{site.routes['app'][-6:]}={value}".encode()) for value in (id, "x" * 43)]
    twice = [[("cookie", ids[0][1] + b"; " + ids[1][1])], [("cookie", ids[1][1] + b"; " + ids[0][1])], ids]
    headers: list[Lines] = [
        [("authorization", f"Bearer {token}".encode())],
        [("x-forwarded-uri", b"/open"), ("x-original-url", b"/open"), ("x-rewrite-url", b"/open")],
        [("x-http-method-override", b"OPTIONS"), ("x-method-override", b"OPTIONS")],
        [("tunnel-auth-user-email", b"ada@example.com"), ("x-envoy-original-path", b"/open")],
    ]
    attempts = [*other_attempts, *((site, "/app", lines) for lines in (*lines_by_token.values(), *twice, *headers))]
    assert site.send("/app", [cookie({name: token})], method="GET")[0] == 200
    assert site.send("/app", [cookie({name: sign(token)})], method="GET")[0] == 200  # the key of the forged ones
    Origin.requests.clear()
    statuses = {
        (site.name, path, str(lines)): site.send(path, lines, method="GET")[0] for site, path, lines in attempts
    }
    assert statuses == dict.fromkeys(statuses, 401)
    assert site.send(f"/app?access_token={token}", [], method="GET")[0] == 401
    assert {path: site.send(path.format(host=site.host), [], method="GET")[0] for path in PATHS} == PATHS
    two_hosts = f"GET /app HTTP/1.1\r\nhost: {site.host}\r\nhost: evil.example\r\n\r\n".encode()
    assert site.send_raw(two_hosts, "GET")[0] == 400
    assert Origin.requests == []


def sign(token: str, **changes: Any) -> str:
    """Return a token that the service's key signs, with other claims. One that is None is left out."""
    claims = {**jwt.decode(token, options={"verify_signature": False}), **changes}
    pair = signing_keys.choose(signing_keys.read(), int(time.time()))
    assert pair
    present = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(present, keys.unseal(pair).private, "ES256", headers={"kid": pair.kid})


def list_tokens(token: str, sites: Sites) -> dict[str, str]:
    """Return tokens of the service's key that Envoy must reject at the route of a token."""
    now = int(time.time())
    route, _, digest = str(jwt.decode(token, options={"verify_signature": False})["aud"]).partition(".")
    wrong: dict[str, dict[str, Any]] = {
        "expired": {"iat": now - 60, "exp": now - 5},
        "without an end": {"exp": None},
        "too long": {"exp": now + 7200},
        "not yet valid": {"nbf": now + 600},
        "of another issuer": {"iss": "sign-out"},
        "without an issuer": {"iss": None},
        "without an audience": {"aud": None},
        "of another module": {"aud": f"{route}.{'0' * len(digest)}"},
        "of another route": {"aud": f"{sites.oauth.routes['two']}.{digest}"},
        "of another account": {"aud": f"{sites.foreign.routes['app']}.{digest}"},
    }
    return {**{name: sign(token, **changes) for name, changes in wrong.items()}, **forge(token)}


def forge(token: str) -> dict[str, str]:
    """Return tokens that the service's key does not sign."""
    claims, kid = jwt.decode(token, options={"verify_signature": False}), jwt.get_unverified_header(token)["kid"]
    (public,) = [pair.public for pair in signing_keys.read() if pair.kid == kid]
    other_key, key_header = ec.generate_private_key(ec.SECP256R1()), {"kid": kid}
    return {
        "with another key": jwt.encode(claims, other_key, "ES256", headers=key_header),
        "with its own key": jwt.encode(claims, other_key, "ES256", headers={**key_header, "jwk": dict(public)}),
        "with no key": jwt.encode(claims, "", "none", headers=key_header),
        "with the public key as a secret": jwt.encode(claims, public["x"] + public["y"], "HS256", headers=key_header),
        "with a changed signature": f"{token[:-6]}AAAAAA",
        "empty": "",
    }


def test_a_request_with_two_tokens_has_the_user_of_the_first(
    edge: Edge, sites: Sites, providers: FakeProviders
) -> None:
    site, users = sites.oauth, dict[str, bytes]()
    for person in (Person(), EVE):
        providers.people["google"] = person
        browser = Browser(edge)
        assert browser.open(site.name, "/app").status_code == 200
        (users[person.email],) = (
            f"{name}={value}".encode() for name, value in browser.cookies.items() if "session." in name
        )
    name = next(iter(users.values())).partition(b"=")[0]
    (ada, of_ada), (eve, of_eve) = users.items()
    cases = {(of_ada, of_eve): ada, (of_eve, of_ada): eve, (of_ada, name + b"=x"): ada, (name + b"=x", of_ada): ""}
    for (first, second), user in cases.items():
        lines: Lines
        for lines in ([("cookie", first + b"; " + second)], [("cookie", first), ("cookie", second)]):
            Origin.requests.clear()
            site.send("/app", lines, method="GET")
            requests = [
                (request.get_all("tunnel-auth-user-email"), request.get("cookie")) for request in Origin.requests
            ]
            assert requests == ([([user], None)] if user else []), lines


def test_large_cookies_are_dropped_and_copied_ones_end_with_the_maximum(edge: Edge, sites: Sites) -> None:
    site, browser = sites.oauth, Browser(edge)
    assert browser.open(site.name, "/short").status_code == 200
    copies = [[cookie({name: value})] for name, value in browser.cookies.items() if "login" not in name]
    assert [site.send("/short", lines, method="GET")[0] for lines in copies] == [200, 200]
    for path, own_cookies in (("/short", b"; " + cookie(browser.cookies)[1]), ("/open", b"")):
        Origin.requests.clear()
        for size in (8000, 8300):
            lines = [("cookie", b"theme=dark; big=" + b"x" * size + own_cookies)]
            assert site.send(path, lines, method="GET")[0] == 200
        assert [request.get("cookie", "")[:17] for request in Origin.requests] == ["theme=dark; big=x", ""]
    until(lambda: [site.send("/short", lines, method="GET")[0] for lines in copies] == [401, 401], within=8)
    page = edge.curl(site.name, *NAVIGATES, "-b", cookie(browser.cookies)[1].decode(), "-i", path="/short")
    assert "prompt=login" in page  # a fresh sign-in
