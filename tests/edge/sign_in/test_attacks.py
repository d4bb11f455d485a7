"""Attacks on sign-ins, in process: states, redirects, and the provider's proofs."""

from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from edge.sign_in.replies import Forward, Reply
from tests.edge.sign_in.browser import Browser
from tests.edge.sign_in.fake_providers import FakeProviders, Person
from tests.edge.sign_in.in_process import Clock, run
from tests.edge.sign_in.samples import module
from tests.transports import Client


@pytest.mark.parametrize(
    "to", ["//evil.example", "/\\evil.example", "https://evil.example", "", "/a\nb", "/" + "x" * 2048]
)
def test_redirects_stay_on_the_host(admin: Client, providers: FakeProviders, to: str) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        answer = await browser.get(f"/_service/sign-out?{urlencode({'to': to})}")
        assert isinstance(answer, Reply)
        assert answer.headers["location"] == "/"

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
