"""Sign-ins at eight providers, in process: a browser, the service, the store, and fake providers on loopback."""

import asyncio
import contextlib
import html
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from chalicelib.model.edges import application_errors
from chalicelib.model.sign_in import managed_apps, signing_keys
from chalicelib.storage.client import dynamodb
from edge.sign_in.dependencies import Dependencies
from edge.sign_in.provider import provider_table
from edge.sign_in.provider.limits import ExchangeLimits
from edge.sign_in.provider.provider_client import ProviderClient
from edge.sign_in.replies import Forward, Reply
from edge.sign_in.service import SignInService
from edge.sign_in.sign_in_metrics import SignInMetrics
from edge.sign_in.sign_in_records import SignInRecords
from edge.sign_in.visits import Visit
from tests.edge.sign_in import fake_providers, statuses
from tests.edge.sign_in.browser import SIGN_IN_HOST, Browser
from tests.edge.sign_in.fake_providers import FakeProviders, Person
from tests.edge.sign_in.samples import module
from tests.modules import damage
from tests.transports import Client


class Clock:
    """A clock that stands until it is moved. It begins at the real time."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def providers() -> Iterator[FakeProviders]:
    with fake_providers.serve() as fake:
        yield fake


@pytest.fixture(autouse=True)
def forgotten(providers: FakeProviders) -> None:
    """Begin each test with the same people."""
    for kept in (providers.people, providers.calls, providers.silent, providers.refusing, providers.revoked):
        kept.clear()


@contextlib.asynccontextmanager
async def serving(fake: FakeProviders, clock: Clock) -> AsyncIterator[SignInService]:
    """Yield the sign-in service of one host."""
    records = SignInRecords()
    exchange = ProviderClient(timeout=2, call_timeout=1, clock=clock, watch_date=lambda date: None)
    named, limits = provider_table.with_endpoints(fake.endpoints()), ExchangeLimits(8)
    dependencies = Dependencies(records, exchange, named, limits, clock, SignInMetrics())
    service = SignInService(dependencies, f"https://{SIGN_IN_HOST}")
    await records.refresh()
    try:
        yield service
    finally:
        await exchange.close()


def run(
    admin: Client, fake: FakeProviders, module: dict[str, Any], test: Callable[[Browser, Clock], Awaitable[None]]
) -> None:
    """Run a test with a browser of a route that has the module."""
    edge = admin.create("/edges/https", {"hostports": ["app.tunnels.localhost:443"]})
    route = admin.create(f"/edges/https/{edge['id']}/routes", {"match_type": "path_prefix", "match": "/"})
    assert admin.put(f"/edges/https/{edge['id']}/routes/{route['id']}/oauth", module).status == 200

    async def work() -> None:
        clock = Clock()
        rule = await SignInRecords().current_rule(admin.account, edge["id"], route["id"])
        assert rule
        async with serving(fake, clock) as service:
            await test(Browser(service, rule), clock)

    asyncio.run(work())


def application_error(browser: Browser) -> str:
    """Return the stored error of the application of a browser's route."""
    rule = browser.rule
    record = dynamodb.get(*application_errors.place(rule.account, rule.edge))
    found = application_errors.decode(record["body"]).get(rule.route) if record else None
    assert found is None or found.digest == rule.digest
    return found.sentence if found else ""


@pytest.mark.parametrize("name", provider_table.PROVIDERS)
def test_a_user_who_may_pass_arrives_with_headers(admin: Client, providers: FakeProviders, name: str) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        answer = await browser.open("/inside?x=1")
        assert isinstance(answer, Forward), answer
        assert answer.headers == {
            "tunnel-auth-provider": name,
            "tunnel-auth-user-id": "4711",
            "tunnel-auth-user-email": "ada@example.com",
            "tunnel-auth-user-name": "Ada Lovelace",
        }
        claims = browser.token()
        assert (claims["iss"], claims["aud"], claims["email"]) == ("sign-in", browser.rule.audience, "ada@example.com")

    run(admin, providers, module(name, email_addresses=["ADA@example.com"]), test)


@pytest.mark.parametrize("name", provider_table.PROVIDERS)
def test_a_user_of_another_address_is_refused(admin: Client, providers: FakeProviders, name: str) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        answer = await browser.open("/inside")
        assert isinstance(answer, Reply)
        assert answer.status == 403
        assert "ada@example.com" in answer.body

    run(admin, providers, module(name, email_domains=["example.org"]), test)


@pytest.mark.parametrize("name", ["github", "google", "gitlab", "linkedin", "twitch"])
def test_an_unverified_address_does_not_count(admin: Client, providers: FakeProviders, name: str) -> None:
    providers.people[name] = Person(verified=False)

    async def test(browser: Browser, clock: Clock) -> None:
        answer = await browser.open("/inside")
        assert isinstance(answer, Reply)
        assert answer.status == 403

    run(admin, providers, module(name, email_addresses=["ada@example.com"]), test)


def test_facts_decide_by_one_entry_of_one_list(admin: Client, providers: FakeProviders) -> None:
    providers.people["github"] = Person(
        teams=[("Acme", "ops"), ("other", "dev")], organizations={"acme": "active", "Other": "pending"}
    )

    async def passes(browser: Browser, clock: Clock) -> None:
        assert isinstance(await browser.open("/"), Forward)

    async def fails(browser: Browser, clock: Clock) -> None:
        answer = await browser.open("/")
        assert isinstance(answer, Reply)
        assert answer.status == 403

    run(admin, providers, module("github", organizations=["ACME"]), passes)
    admin.delete(f"/edges/https/{admin.get('/edges/https').json['https_edges'][0]['id']}")
    run(admin, providers, module("github", organizations=["other"], teams=["acme/dev", "other/dev"]), fails)


def test_only_page_requests_are_sent_to_the_provider(admin: Client, providers: FakeProviders) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        navigates = {"sec-fetch-mode": "navigate"}
        answers = [
            await browser.get("/", "GET", **{"sec-fetch-mode": "cors"}),
            await browser.get("/", "POST", **navigates),
            await browser.get("/", "GET", upgrade="websocket", **navigates),
            await browser.get("/", "GET", accept="application/json"),
            await browser.get("/", "OPTIONS"),
            await browser.get("/", "GET", **{"x-http-method-override": "GET", "accept": "*/*"}),
            await browser.get("/", "GET", accept="text/html,*/*"),
            await browser.get("/", "HEAD", **navigates),
        ]
        assert [it.status for it in answers if isinstance(it, Reply)] == [401] * 6 + [302] * 2
        first = answers[0]
        assert isinstance(first, Reply)
        assert first.headers["cache-control"] == "no-store"
        assert "location" not in first.headers

    run(admin, providers, module("google"), test)


def test_a_session_lasts_as_long_as_its_limits(admin: Client, providers: FakeProviders) -> None:
    limits = {"inactivity_timeout": 40, "maximum_duration": 300, "auth_check_interval": 100}

    async def test(browser: Browser, clock: Clock) -> None:
        assert isinstance(await browser.open("/"), Forward)
        claims = browser.token()
        assert (int(str(claims["exp"])) - int(clock.now)) == 9  # a quarter of the inactivity, minus a second of skew
        clock.now += 38.5
        assert isinstance(await browser.get("/"), Forward)
        clock.now += 38.5
        assert isinstance(await browser.get("/"), Forward)
        clock.now += 41
        idle = await browser.get("/")
        assert isinstance(idle, Reply)
        assert idle.status == 401

    run(admin, providers, module("github", **limits), test)


def test_the_maximum_asks_for_a_fresh_sign_in(admin: Client, providers: FakeProviders) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        assert isinstance(await browser.open("/"), Forward)
        clock.now += 299
        assert isinstance(await browser.get("/"), Forward)
        clock.now += 2
        answer = await browser.get("/", **{"sec-fetch-mode": "navigate"})
        assert isinstance(answer, Reply)
        assert "prompt=select_account" in answer.headers["location"]

    run(admin, providers, module("google", maximum_duration=300), test)


def test_a_lost_right_ends_with_the_interval(admin: Client, providers: FakeProviders) -> None:
    providers.people["github"] = Person(organizations={"acme": "active"})

    async def test(browser: Browser, clock: Clock) -> None:
        assert isinstance(await browser.open("/"), Forward)
        providers.people["github"].organizations = {}
        clock.now += 50
        assert isinstance(await browser.get("/"), Forward)
        clock.now += 51
        lost = await browser.get("/")
        assert isinstance(lost, Reply)
        assert lost.status == 403
        providers.people["github"].organizations = {"acme": "active"}
        clock.now += 101
        assert isinstance(await browser.get("/"), Forward)

    run(admin, providers, module("github", organizations=["acme"], auth_check_interval=100), test)


def test_a_revoked_application_requires_a_new_sign_in(admin: Client, providers: FakeProviders) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        assert isinstance(await browser.open("/"), Forward)
        providers.revoked.add("google")
        clock.now += 101
        answer = await browser.get("/")
        assert isinstance(answer, Reply)
        assert answer.status == 401
        assert await browser.service._records.session(browser.session_id()) is None

    run(admin, providers, module("google", auth_check_interval=100), test)


def test_a_silent_provider_closes_until_it_answers(admin: Client, providers: FakeProviders) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        assert isinstance(await browser.open("/"), Forward)
        providers.silent.add("github")
        clock.now += 101
        answer = await browser.get("/")
        assert isinstance(answer, Reply)
        assert (answer.status, answer.headers["retry-after"]) == (503, "5")
        providers.silent.clear()
        clock.now += 15
        assert isinstance(await browser.get("/"), Forward)

    run(admin, providers, module("github", auth_check_interval=100), test)


def test_sign_ins_that_fail_are_counted_for_the_alarm(admin: Client, providers: FakeProviders) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        providers.refusing.add("github")
        for number in range(2):
            answer = await browser.open(f"/{number}")
            assert isinstance(answer, Reply)
            assert answer.status == 502
        providers.refusing.clear()
        assert isinstance(await browser.open("/"), Forward)
        metrics = (await browser.service._counts.read()).decode()
        for outcome, count in (("application", 2), ("passed", 1), ("silent", 0)):
            assert f'edge_oauth_sign_ins_total{{outcome="{outcome}",provider="github"}} {count}.0' in metrics

    run(admin, providers, module("github"), test)


def test_twenty_requests_ask_the_provider_once(admin: Client, providers: FakeProviders) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        assert isinstance(await browser.open("/"), Forward)
        providers.calls.clear()
        clock.now += 101
        answers = await asyncio.gather(*(browser.get("/") for _ in range(20)))
        assert all(isinstance(it, Forward) for it in answers)
        assert providers.calls == ["github/api/user", "github/api/user/emails"]

    run(admin, providers, module("github", auth_check_interval=100), test)


def test_a_session_passes_at_another_host_after_all_keys_were_replaced(admin: Client, providers: FakeProviders) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        assert isinstance(await browser.open("/"), Forward)
        before = browser.token()
        assert signing_keys.remove_all() == 1
        asked = len(providers.calls)
        async with serving(providers, clock) as other:
            browser.service = other
            assert isinstance(await browser.get("/", "POST"), Forward)
        assert len(providers.calls) == asked
        assert browser.token()["aud"] == before["aud"]

    run(admin, providers, module("google"), test)


def test_sign_out_ends_the_session_and_its_copies(admin: Client, providers: FakeProviders) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        assert isinstance(await browser.open("/"), Forward)
        copy = {host: {**kept} for host, kept in browser.cookies.items()}
        other_site = await browser.get("/_service/sign-out?to=/bye", **{"sec-fetch-site": "cross-site"})
        assert isinstance(other_site, Reply)
        assert (other_site.status, "<button>" in other_site.body) == (200, True)
        assert isinstance(await browser.get("/"), Forward)
        answer = await browser.get("/_service/sign-out?to=/bye")
        assert isinstance(answer, Reply)
        assert (answer.status, answer.headers["location"]) == (303, "/bye")
        browser.cookies = copy
        again = await browser.get("/")
        assert isinstance(again, Reply)
        assert again.status == 401

    run(admin, providers, module("google"), test)


@pytest.mark.parametrize(
    "to", ["//evil.example", "/\\evil.example", "https://evil.example", "", "/a\nb", "/" + "x" * 2048]
)
def test_redirects_stay_on_the_host(admin: Client, providers: FakeProviders, to: str) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        answer = await browser.get(f"/_service/sign-out?{urlencode({'to': to})}")
        assert isinstance(answer, Reply)
        assert answer.headers["location"] == "/"

    run(admin, providers, module("google"), test)


def test_a_request_of_no_known_route_is_closed(admin: Client, providers: FakeProviders) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        for path in ("/", "/callback", "/confirm", "/_service/sign-in"):
            answer = await browser.service.answer(Visit("GET", path, browser.host, "127.0.0.1"))
            assert isinstance(answer, Reply)
            assert (answer.status, answer.cookies) == (503, ())

    run(admin, providers, module("google"), test)


def test_a_sign_in_of_another_browser_host_or_time_is_refused(admin: Client, providers: FakeProviders) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        begun = await browser.get("/", **{"sec-fetch-mode": "navigate"})
        assert isinstance(begun, Reply)
        state = parse_qs(urlsplit(begun.headers["location"]).query)["state"][0]
        other = Browser(browser.service, browser.rule)
        elsewhere = Browser(browser.service, browser.rule, "other.tunnels.localhost", browser.cookies)
        elsewhere.cookies["other.tunnels.localhost"] = browser.cookies[browser.host]
        path = f"/_service/callback?code=x&state={state}"
        changed = state[:-2] + ("AA" if state[-2:] != "AA" else "BB")
        answers = [
            await other.get(path),
            await elsewhere.get(path),
            await browser.get(f"/_service/callback?code=x&state={changed}"),
            await browser.get(f"{path}&state={state}"),
            await browser.get("/_service/callback?code=x"),
            await browser.get(f"/_service/callback?state={state}"),
        ]
        clock.now += 601
        answers.append(await browser.get(path))
        assert [it.status for it in answers if isinstance(it, Reply)] == [400] * 7
        assert not any("location" in it.headers for it in answers)
        assert providers.calls == []

    run(admin, providers, module("google"), test)


@pytest.mark.parametrize(
    ("name", "answer", "status"),
    [
        ("google", "error=access_denied", 403),
        ("google", "error=access_denied&error=x", 403),
        ("google", "error=server_error", 503),
        ("google", "error=invalid_scope", 502),
        ("gitlab", "code=x", 403),  # GitLab always names itself (RFC 9207)
        ("gitlab", "code=x&iss=https://evil.example", 403),
        ("gitlab", "error=access_denied&iss=https://evil.example", 403),
    ],
)
def test_errors_and_issuers_in_the_provider_s_redirect(
    admin: Client, providers: FakeProviders, name: str, answer: str, status: int
) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        begun = await browser.get("/", **{"sec-fetch-mode": "navigate"})
        assert isinstance(begun, Reply)
        state = parse_qs(urlsplit(begun.headers["location"]).query)["state"][0]
        reply = await browser.get(f"/_service/callback?{answer}&state={state}")
        assert isinstance(reply, Reply)
        assert (reply.status, "location" in reply.headers, providers.calls) == (status, False, [])

    run(admin, providers, module(name), test)


@pytest.mark.parametrize(
    ("claims", "status"),
    [
        ({"nonce": "other"}, 403),
        ({"aud": "another app"}, 403),
        ({"aud": ["app", "other"]}, 403),
        ({"azp": "other"}, 403),
        ({"iss": "https://evil.example"}, 403),
        ({"exp": 1}, 403),
        ({"exp": "9999999999"}, 403),
        ({"email_verified": "true"}, 403),
        ({"email_verified": 1}, 403),
        ({"email": "ada@example.com.evil.example"}, 403),
        ({"email": "evil@x@example.com"}, 403),
        ({"email": "ada@example.com "}, 403),
        ({"email": "ada@еxample.com"}, 403),
    ],
)
def test_a_wrong_id_token_admits_nobody(
    admin: Client, providers: FakeProviders, claims: dict[str, Any], status: int
) -> None:
    providers.people["google"] = Person(claims=claims)

    async def test(browser: Browser, clock: Clock) -> None:
        answer = await browser.open("/")
        assert isinstance(answer, Reply)
        assert answer.status == status

    run(admin, providers, module("google", email_domains=["example.com"]), test)


@pytest.mark.parametrize(
    ("claims", "passes"),
    [
        ({}, True),
        ({"preferred_username": "evil_example.com#EXT#@other.onmicrosoft.com"}, False),
        ({"preferred_username": "evil@other.example", "email": "ada@example.com"}, False),
        ({"preferred_username": "evil@other.example", "email": "ada@example.com", "xms_edov": True}, True),
        ({"preferred_username": "ada@example.com", "xms_edov": "true"}, False),
        ({"tid": "9188040d-6c67-4c5b-b112-36a304b66dad", "email": "ada@example.com"}, True),
    ],
)
def test_addresses_of_foreign_tenants_do_not_count(
    admin: Client, providers: FakeProviders, claims: dict[str, Any], passes: bool
) -> None:
    providers.people["microsoft"] = Person(claims=claims)

    async def test(browser: Browser, clock: Clock) -> None:
        assert isinstance(await browser.open("/"), Forward) == passes

    run(admin, providers, module("microsoft", email_domains=["example.com"]), test)


def test_a_refused_application_is_a_502(admin: Client, providers: FakeProviders) -> None:
    providers.refusing.add("gitlab")

    async def test(browser: Browser, clock: Clock) -> None:
        answer = await browser.open("/")
        assert isinstance(answer, Reply)
        assert (answer.status, "refuses this site&#x27;s application" in answer.body) == (502, True)
        assert application_error(browser).partition(":")[0] == "The provider refuses this application"
        providers.refusing.clear()
        assert isinstance(await browser.open("/"), Forward)
        assert application_error(browser) == ""

    run(admin, providers, module("gitlab"), test)


def test_a_managed_application_shows_a_page_before_the_provider(admin: Client, providers: FakeProviders) -> None:
    managed_apps.set_app("github", "managed", "very secret")

    async def test(browser: Browser, clock: Clock) -> None:
        page = await browser.open("/inside")
        assert isinstance(page, Reply)
        assert "app.tunnels.localhost asks you to sign in with GitHub" in page.body
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
        assert providers.calls == []
        action = html.unescape(page.body.split('action="')[1].split('"')[0])
        stolen = await Browser(browser.service, browser.rule).post_to_sign_in(action)
        assert (stolen.status, providers.calls) == (200, [])
        assert isinstance(await browser.follow(await browser.post_to_sign_in(action)), Forward)
        browser.cookies[browser.host].clear()
        assert isinstance(await browser.open("/inside"), Forward)

    body = {"provider": {"github": {"organizations": [], "email_domains": ["example.com"]}}}
    run(admin, providers, body, test)


def test_a_secret_that_cannot_be_decrypted_is_in_the_status_until_it_is_set_again(
    admin: Client, providers: FakeProviders
) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        edge, route = browser.rule.edge, browser.rule.route
        path = f"/edges/https/{edge}/routes/{route}/oauth"
        group = admin.create("/backends/tunnel_group", {"labels": {"app": "web"}})["id"]
        admin.put(f"/edges/https/{edge}/routes/{route}/backend", {"backend_id": group})
        damage.replace_secret(path, "provider", "github", "client_secret")
        assert statuses.route_status(admin, edge) == ("live", "")
        answer = await browser.open("/")
        assert isinstance(answer, Reply)
        assert answer.status == 503
        sentence = "The client secret cannot be decrypted: set client_secret again."
        assert statuses.route_status(admin, edge) == ("refused", sentence)
        assert admin.put(path, module("github")).status == 200
        assert statuses.route_status(admin, edge) == ("live", "")

    run(admin, providers, module("github"), test)
