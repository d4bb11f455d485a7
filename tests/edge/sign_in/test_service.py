"""Sign-ins at eight providers, in process: a browser, the service, the store, and fake providers on loopback."""

import asyncio
import html

import pytest

from chalicelib.model.edges import application_errors
from chalicelib.model.sign_in import managed_apps, signing_keys
from chalicelib.storage.client import dynamodb
from edge.sign_in.provider import provider_table
from edge.sign_in.replies import Forward, Reply
from edge.sign_in.visits import Visit
from tests.edge.sign_in import statuses
from tests.edge.sign_in.browser import Browser
from tests.edge.sign_in.fake_providers import FakeProviders, Person
from tests.edge.sign_in.in_process import Clock, run, serving
from tests.edge.sign_in.samples import module
from tests.modules import damage
from tests.transports import Client


def application_error(browser: Browser) -> str:
    """Return the stored error of the application of a browser's route."""
    rule = browser.rule
    record = dynamodb.get(*application_errors.item_key(rule.account, rule.edge))
    application_result = application_errors.decode(record["body"]).get(rule.route) if record else None
    assert application_result is None or application_result.digest == rule.digest
    return application_result.sentence if application_result else ""


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
        assert [answer.status for answer in answers if isinstance(answer, Reply)] == [401] * 6 + [302] * 2
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

    run(admin, providers, module("github", auth_check_interval=100), test, timeout=1)


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
        assert all(isinstance(answer, Forward) for answer in answers)
        assert providers.calls == ["github/api/user", "github/api/user/emails"]

    run(admin, providers, module("github", auth_check_interval=100), test)


def test_a_session_passes_at_another_host_after_all_keys_were_replaced(admin: Client, providers: FakeProviders) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        assert isinstance(await browser.open("/"), Forward)
        before = browser.token()
        assert signing_keys.remove_all() == 1
        count_before = len(providers.calls)
        async with serving(providers, clock) as other:
            browser.service = other
            assert isinstance(await browser.get("/", "POST"), Forward)
        assert len(providers.calls) == count_before
        assert browser.token()["aud"] == before["aud"]

    run(admin, providers, module("google"), test)


def test_sign_out_ends_the_session_and_its_copies(admin: Client, providers: FakeProviders) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        assert isinstance(await browser.open("/"), Forward)
        copy = {host: {**jar} for host, jar in browser.cookies.items()}
        other_site = await browser.get("/_service/sign-out?to=/bye", **{"sec-fetch-site": "cross-site"})
        assert isinstance(other_site, Reply)
        assert (other_site.status, "<button>" in other_site.body) == (200, True)
        assert isinstance(await browser.get("/"), Forward)
        answer = await browser.get("/_service/sign-out?to=/bye")
        assert isinstance(answer, Reply)
        assert (answer.status, answer.headers["location"]) == (303, "/bye")
        browser.cookies = copy
        second = await browser.get("/")
        assert isinstance(second, Reply)
        assert second.status == 401

    run(admin, providers, module("google"), test)


def test_a_request_of_no_known_route_is_closed(admin: Client, providers: FakeProviders) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        for path in ("/", "/callback", "/confirm", "/_service/sign-in"):
            answer = await browser.service.answer(Visit("GET", path, browser.host, "127.0.0.1"))
            assert isinstance(answer, Reply)
            assert (answer.status, answer.cookies) == (503, ())

    run(admin, providers, module("google"), test)


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
