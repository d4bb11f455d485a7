"""Webhooks at a real edge: which requests pass, by a model of their signatures, and attempts to pass without one."""

import gzip
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from chalicelib.model.edges.modules.webhook_verification import WebhookProvider
from tests.edge.sign_in.webhooks.signing import PROVIDERS, SIGNED_TIMES, secret_of, sign
from tests.live.edge import module_site
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.module_site import Lines, Origin, Site
from tests.live.edge.running import Edge, until
from tests.transports import Client

pytestmark = needs_envoy
BODY = b'{"event": "push"}'
LARGEST = 1 << 20
WEBHOOKS: Mapping[str, Mapping[str, object]] = {
    provider: {"provider": provider, "secret": secret_of(provider)} for provider in PROVIDERS
}


@pytest.fixture
def service(edge: Edge) -> Iterator[None]:
    with module_site.verifying(edge, edge.settings):
        yield


@pytest.fixture
def site(edge: Edge, admin: Client, service: None, request: pytest.FixtureRequest) -> Iterator[Site]:
    name = f"hooks{abs(hash(request.node.name)) % 100_000}"
    with module_site.serving(edge, admin, name, "webhook_verification", WEBHOOKS) as site:
        yield site


@dataclass(frozen=True)
class Case:
    """A request to the route of a provider, and what the model says of it."""

    provider: WebhookProvider
    lines: Lines
    body: bytes
    chunk: int
    passes: bool


def draw(chance: Random) -> Case:
    provider, now = chance.choice(PROVIDERS), int(time.time())
    body = chance.randbytes(chance.choice([0, 1, 100, 5000, 70_000]))
    signer: WebhookProvider = provider if chance.random() < 0.8 else chance.choice(PROVIDERS)
    age = chance.choice([0, 0, 0, -250, 250, 400, -400, 4000])
    key = b"0123456789abcdefghijklmn" if chance.random() < 0.9 else b"another key of the provi"
    lines, content = sign(signer, body, now - age, key=key), body
    is_signed = signer == provider and key.startswith(b"0")
    if chance.random() < 0.2:
        content = body + b"!" if chance.random() < 0.5 or not body else body[:-1]
    if chance.random() < 0.1:
        lines = [*lines, chance.choice(lines)]
        is_signed = False
    is_signed &= content == body or provider == "GITLAB"
    is_signed &= abs(age) <= 300 or provider not in SIGNED_TIMES
    return Case(provider, lines, content, chance.choice([0, 0, 7000]), is_signed)


def test_a_thousand_webhooks_pass_as_the_model_says(site: Site) -> None:
    chance = Random(50)
    cases = [draw(chance) for _ in range(1000)]
    with ThreadPoolExecutor(4) as threads:
        answers = list(
            threads.map(lambda case: site.send(f"/{case.provider}", case.lines, case.body, chunk=case.chunk), cases)
        )
    wrong = [
        (case, status)
        for case, (status, body) in zip(cases, answers, strict=True)
        if (status, body == case.body) != ((200, True) if case.passes else (403, False))
    ]
    assert wrong == []
    assert 250 < sum(case.passes for case in cases) < 750
    assert sorted(Origin.bodies) == sorted(case.body for case in cases if case.passes)


def attempts() -> Iterator[tuple[str, int, bytes, str]]:
    """Yield attempts to pass without a signature: the status, what is sent on a connection, and its method.

    `HOST` stands for the host of the site.
    """
    now = int(time.time())

    def post(path: str, lines: Lines, body: bytes = BODY, method: str = "POST", more: bytes = b"") -> bytes:
        head = f"{method} {path} HTTP/1.1\r\nhost: HOST\r\ncontent-length: {len(body)}\r\n".encode()
        return head + module_site.encode(lines) + more + b"\r\n" + body

    github, slack, gitlab = sign("GITHUB", BODY, now), sign("SLACK", BODY, now), sign("GITLAB", BODY, now)
    ((name, value),) = github
    empty = sign("GITHUB", b"", now)
    wrong = (name, b"sha256=" + b"0" * 64)
    upgrade = b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAA\r\n"
    yield "no signature", 403, post("/GITHUB", []), "POST"
    yield "an empty signature", 403, post("/GITHUB", [(name, b"")]), "POST"
    yield "a forged signature", 403, post("/GITHUB", [wrong]), "POST"
    yield "another secret", 403, post("/GITHUB", sign("GITHUB", BODY, now, key=b"other")), "POST"
    yield "an altered body", 403, post("/GITHUB", github, b'{"event": "pull"}'), "POST"
    yield "a longer body", 403, post("/GITHUB", github, BODY + b"\n"), "POST"
    yield "a shorter body", 403, post("/GITHUB", github, BODY[:-1]), "POST"
    yield "a body for a signature of none", 403, post("/GITHUB", empty), "POST"
    yield "a truncated signature", 403, post("/GITHUB", [(name, value[:-2])]), "POST"
    yield "a signature in capitals", 403, post("/GITHUB", [(name, b"sha256=" + value[7:].upper())]), "POST"
    yield "no prefix", 403, post("/GITHUB", [(name, value[7:])]), "POST"
    yield "the prefix alone", 403, post("/GITHUB", [(name, b"sha256=")]), "POST"
    yield "a second, forged header", 403, post("/GITHUB", [*github, wrong]), "POST"
    yield "a first, forged header", 403, post("/GITHUB", [wrong, *github]), "POST"
    yield "two signatures in a header", 403, post("/GITHUB", [(name, wrong[1] + b"," + value)]), "POST"
    yield "the header of SHA-1", 403, post("/GITHUB", [("x-hub-signature", value)]), "POST"
    yield "the scheme of another provider", 403, post("/BITBUCKET", github), "POST"
    yield "a replay", 403, post("/SLACK", sign("SLACK", BODY, now - 330)), "POST"
    yield "a webhook of the future", 403, post("/SLACK", sign("SLACK", BODY, now + 400)), "POST"
    old = sign("SLACK", BODY, now - 330)
    yield "an altered timestamp", 403, post("/SLACK", [slack[0], old[1]]), "POST"
    yield "no timestamp", 403, post("/SLACK", slack[1:]), "POST"
    yield "two timestamps", 403, post("/SLACK", [*slack, old[0]]), "POST"
    yield "a token with a space", 403, post("/GITLAB", [(gitlab[0][0], gitlab[0][1] + b"\t x")]), "POST"
    yield "a part of the token", 403, post("/GITLAB", [(gitlab[0][0], gitlab[0][1][:-1])]), "POST"
    yield "GET", 403, post("/GITHUB", [], b"", "GET"), "GET"
    yield "OPTIONS", 403, post("/GITHUB", [], b"", "OPTIONS"), "OPTIONS"
    yield "HEAD", 403, post("/GITHUB", [], b"", "HEAD"), "HEAD"
    yield "another method in a header", 403, post("/GITHUB", [("x-http-method-override", b"GET")]), "POST"
    yield "a WebSocket", 403, post("/GITHUB", empty, b"", "GET", upgrade), "GET"
    yield "an upgrade to HTTP/2", 403, post("/GITHUB", empty, more=upgrade.replace(b"websocket", b"h2c")), "POST"
    yield "an upgrade with a body", 403, post("/GITHUB", empty, more=upgrade), "POST"
    for path in (
        "//GITHUB",
        "/open/../GITHUB",
        "/%47ITHUB",
        "/open/%2e%2e/GITHUB",
        "/open\\..\\GITHUB",
        "/open;/../GITHUB",
    ):
        yield f"the path {path}", 400, post(path, []), "POST"
    yield "a body above the bound", 413, post("/GITHUB", github, b"x" * (LARGEST + 1)), "POST"
    for size in (LARGEST, LARGEST + 1):  # Envoy shortens what it sends to the service
        body = b"x" * size
        lines = sign("GITHUB", body, now)
        yield f"more after {size} signed bytes", 413, post("/GITHUB", lines, body + b"y"), "POST"
        chunked = b"POST /GITHUB HTTP/1.1\r\nhost: HOST\r\ntransfer-encoding: chunked\r\n" + module_site.encode(lines)
        chunks = b"\r\n%x\r\n%b\r\n9\r\nunsigned!\r\n0\r\n\r\n" % (size, body)
        yield f"a chunk after {size} signed bytes", 413, chunked + chunks, "POST"
    trailer = (
        b"POST /GITHUB HTTP/1.1\r\nhost: HOST\r\ntransfer-encoding: chunked\r\ntrailer: %b\r\n\r\n" % name.encode()
    )
    chunk = b"%x\r\n%b\r\n0\r\n%b: %b\r\n\r\n" % (len(BODY), BODY, name.encode(), value)
    yield "a signature in a trailer", 403, trailer + chunk, "POST"
    two_framings = b"POST /GITHUB HTTP/1.1\r\nhost: HOST\r\ncontent-length: 0\r\ntransfer-encoding: chunked\r\n"
    yield "two framings", 400, two_framings + module_site.encode(empty) + b"\r\n" + chunk, "POST"


def test_no_attempt_passes(site: Site) -> None:
    all_attempts = list(attempts())
    assert len(all_attempts) >= 30
    statuses = [
        (label, site.send_raw(request.replace(b"HOST", site.host.encode()), method)[0])
        for label, _, request, method in all_attempts
    ]
    assert statuses == [(label, status) for label, status, _, _ in all_attempts]
    assert Origin.bodies == []


def test_no_attempt_passes_by_http2(site: Site, origin: int) -> None:
    edge, now = site.edge, int(time.time())
    ((name, value),) = sign("GITHUB", BODY, now)
    signature, wrong = f"{name}: {value.decode()}", f"{name}: sha256={'0' * 64}"
    edge.ssh(edge.key(site.admin.account), "-R", f"beside{site.name}:80:localhost:{origin}")
    until(lambda: edge.status(f"beside{site.name}") == "200")

    def status(host: str, body: bytes, *headers: str, path: str = "/GITHUB") -> str:
        arguments = [part for header in headers for part in ("-H", header)]
        arguments += ["--data-binary", body.decode()] if body else []
        return edge.status(host, "--http2", "--path-as-is", *arguments, path=path)

    assert status(site.name, BODY) == "403"
    assert status(site.name, BODY, signature, wrong) == "403"
    assert status(site.name, BODY, signature, signature) == "403"
    assert status(site.name, b"altered", signature) == "403"
    assert status(site.name, b"", path="/open/../GITHUB") == "400"
    assert status(f"beside{site.name}", b"", f"host: {site.host}") == "421"  # on a connection for another name
    assert Origin.bodies == []
    assert status(site.name, BODY, signature) == "200"


def test_a_webhook_passes_as_it_was_sent(site: Site, tmp_path: Path) -> None:
    now = int(time.time())
    packed, largest = gzip.compress(BODY), b"x" * LARGEST
    for body in (BODY, packed, largest, b"", b"\x00\xff"):
        lines = [*sign("STRIPE", body, now), ("content-encoding", b"gzip")]
        assert site.send("/STRIPE/deeper?a=b", lines, body) == (200, body)
        assert site.send("/STRIPE", lines, body, chunk=10_000) == (200, body)
    for method in ("GET", "PUT", "DELETE"):
        assert site.send("/ZENDESK", sign("ZENDESK", b"", now), b"", method)[0] == 200
    file = tmp_path / "body"
    file.write_bytes(largest)
    for version in ("--http1.1", "--http2"):
        for body in (BODY, largest):
            file.write_bytes(body)
            header_arguments = [
                part for name, value in sign("SVIX", body, now) for part in ("-H", f"{name}: {value.decode()}")
            ]
            status = site.edge.status(site.name, version, *header_arguments, "--data-binary", f"@{file}", path="/SVIX")
            assert status == "200", (version, len(body))
            assert site.edge.status(site.name, version, "--data-binary", f"@{file}", path="/SVIX") == "403"
    file.write_bytes(largest + b"x")
    for version in ("--http1.1", "--http2"):
        assert site.edge.status(site.name, version, "--data-binary", f"@{file}", path="/SVIX") == "413"


def test_a_client_that_waits_for_100_continue_passes(site: Site) -> None:
    now = int(time.time())
    header_arguments = [
        part for name, value in sign("GITHUB", BODY, now) for part in ("-H", f"{name}: {value.decode()}")
    ]
    expect = ("-H", "expect: 100-continue", "--http1.1", "--data-binary", BODY.decode())
    assert site.edge.status(site.name, *header_arguments, *expect, path="/GITHUB") == "200"
    assert site.edge.status(site.name, *expect, path="/GITHUB") == "403"
    assert Origin.bodies == [BODY]


def test_a_changed_module_is_obeyed(site: Site) -> None:
    now = int(time.time())
    headers = sign("GITHUB", BODY, now)
    assert site.send("/GITHUB", headers, BODY)[0] == 200
    site.put("GITHUB", {"provider": "GITHUB", "secret": "another"})
    until(lambda: site.send("/GITHUB", headers, BODY)[0] == 403)
    assert site.send("/GITHUB", sign("GITHUB", BODY, now, key=b"another"), BODY)[0] == 200
    site.put("GITHUB", {"enabled": False, "provider": "GITHUB", "secret": "another"})
    until(lambda: site.send("/GITHUB", [], BODY)[0] == 200)
    site.put("GITHUB", {"provider": "GITHUB", "secret": secret_of("GITHUB")})
    until(lambda: site.send("/GITHUB", [], BODY)[0] == 403)
    site.put("GITHUB", None)
    until(lambda: site.send("/GITHUB", [], BODY)[0] == 200)


def test_without_the_service_routes_are_closed(edge: Edge, admin: Client) -> None:
    now = int(time.time())
    with module_site.verifying(edge, edge.settings):
        pass
    with module_site.serving(edge, admin, "closed", "webhook_verification", WEBHOOKS) as site:
        for provider in PROVIDERS:
            assert site.send(f"/{provider}", sign(provider, BODY, now), BODY)[0] == 503
        assert site.send("/open", [], BODY) == (200, BODY)
        assert Origin.bodies == [BODY]
