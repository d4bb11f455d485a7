"""Attacks on sign-ins, in process: states, redirects, and the provider's proofs."""

from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import pytest

from edge.sign_in.replies import Forward, Reply
from tests.edge.sign_in.browser import Browser
from tests.edge.sign_in.fake_providers import FakeProviders, Person
from tests.edge.sign_in.in_process import Clock, run
from tests.edge.sign_in.samples import module
from tests.transports import Client

NAVIGATES = {"sec-fetch-mode": "navigate"}

FOREIGN_TARGETS = (
    *(
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "/\t/evil.example",
        "//evil.example/%2f..",
    ),
    *("https://evil.example", "https:evil.example", "javascript:alert(1)", "@evil.example", ".evil.example"),
    *("%2F%2Fevil.example", " //evil.example", "/a\nb", "/a\r\nset-cookie: a=b", "/\u2028/evil.example"),
    *("", "/" + "x" * 2048),
)
OWN_TARGETS = ("/", "/a?to=//evil.example", "/%2F%2Fevil.example", "/%5Cevil.example", "/%09/evil.example", "/é")


def test_redirects_stay_on_the_host(admin: Client, providers: FakeProviders) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        for to in (*FOREIGN_TARGETS, *OWN_TARGETS):
            answer = await browser.get(f"/_service/sign-out?{urlencode({'to': to})}")
            assert isinstance(answer, Reply)
            assert answer.headers["location"] == (to if to in OWN_TARGETS else "/")
        for to, path in (("//evil.example", "/"), ("/a?to=//evil.example", "/a?to=//evil.example")):
            assert isinstance(await browser.open(f"/_service/sign-in?{urlencode({'to': to})}"), Forward)
            assert browser.location == path
        answer = await browser.get("/_service/sign-out?to=/a&to=//evil.example")
        assert isinstance(answer, Reply)
        assert answer.headers["location"] == "/"

    run(admin, providers, module("google"), test)


def test_a_code_and_a_state_are_used_once(admin: Client, providers: FakeProviders) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        redirect = await browser.get("/", **NAVIGATES)
        assert isinstance(redirect, Reply)
        parameters = dict(parse_qsl(urlsplit(redirect.headers["location"]).query))
        path = "/_service/callback?" + urlsplit(providers.authorize("google", parameters)).query
        first = await browser.get(path)
        cookies = {**browser.cookies[browser.host]}
        second = await browser.get(path)
        other_code = await browser.get(path.replace("code=", "code=x"))
        assert [answer.status for answer in (first, second, other_code) if isinstance(answer, Reply)] == [303, 403, 403]
        assert browser.cookies[browser.host] == cookies
        assert isinstance(await browser.get("/", "POST"), Forward)  # the session goes on

    run(admin, providers, module("google"), test)


def test_a_state_counts_only_where_and_by_whom_it_began(admin: Client, providers: FakeProviders) -> None:
    """An attacker who completes a sign-in in another browser would sign its user in as somebody else."""

    async def test(browser: Browser, clock: Clock) -> None:
        victim = replace(browser, cookies={})
        for each_browser in (browser, victim):
            assert isinstance(await each_browser.get("/", **NAVIGATES), Reply)
        path = f"/_service/callback?code=x&state={browser.state}"
        (name, login), *_ = browser.cookies[browser.host].items()
        twice = f"{name}={login}; {name}={login}"
        at_other_edge = replace(browser, rule=replace(browser.rule, edge="edghts_2"))
        of_other_account = replace(browser, rule=replace(browser.rule, account="acct_2"))
        answers = [
            await victim.get(path),
            await browser.get(path, cookie=twice),
            await at_other_edge.get(path),
            await of_other_account.get(path),
        ]
        assert [answer.status for answer in answers if isinstance(answer, Reply)] == [400] * 4
        assert providers.calls == []

    run(admin, providers, module("google"), test)


def test_a_session_belongs_to_a_route_and_not_to_a_host(admin: Client, providers: FakeProviders) -> None:
    """Browsers send the cookies to the host that has set them, and to no other one."""

    async def test(browser: Browser, clock: Clock) -> None:
        assert isinstance(await browser.open("/"), Forward)
        own_cookies, other = browser.cookies[browser.host], "other.tunnels.localhost"
        other_browser = replace(browser, host=other, cookies={other: own_cookies})
        assert isinstance(await other_browser.get("/", "POST"), Forward)

    run(admin, providers, module("google"), test)


def test_a_sign_in_of_another_browser_host_or_time_is_refused(admin: Client, providers: FakeProviders) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        redirect = await browser.get("/", **{"sec-fetch-mode": "navigate"})
        assert isinstance(redirect, Reply)
        state = parse_qs(urlsplit(redirect.headers["location"]).query)["state"][0]
        other = Browser(browser.service, browser.rule)
        other_browser = Browser(browser.service, browser.rule, "other.tunnels.localhost", browser.cookies)
        other_browser.cookies["other.tunnels.localhost"] = browser.cookies[browser.host]
        path = f"/_service/callback?code=x&state={state}"
        changed_state = state[:-2] + ("AA" if state[-2:] != "AA" else "BB")
        answers = [
            await other.get(path),
            await other_browser.get(path),
            await browser.get(f"/_service/callback?code=x&state={changed_state}"),
            await browser.get(f"{path}&state={state}"),
            await browser.get("/_service/callback?code=x"),
            await browser.get(f"/_service/callback?state={state}"),
        ]
        clock.now += 601
        answers.append(await browser.get(path))
        assert [answer.status for answer in answers if isinstance(answer, Reply)] == [400] * 7
        assert not any("location" in answer.headers for answer in answers)
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
        redirect = await browser.get("/", **{"sec-fetch-mode": "navigate"})
        assert isinstance(redirect, Reply)
        state = parse_qs(urlsplit(redirect.headers["location"]).query)["state"][0]
        reply = await browser.get(f"/_service/callback?{answer}&state={state}")
        assert isinstance(reply, Reply)
        assert (reply.status, "location" in reply.headers, providers.calls) == (status, False, [])

    run(admin, providers, module(name), test)


WRONG_CLAIMS: tuple[dict[str, Any], ...] = (
    {"nonce": "other"},
    {"nonce": None},
    {"aud": "another app"},
    {"aud": ["app", "other"]},
    {"azp": "other"},
    {"iss": "https://evil.example"},
    {"exp": 1},
    {"exp": "9999999999"},
    {"email_verified": "true"},
    {"email_verified": 1},
    {"email": "ada@example.com.evil.example"},
    {"email": "evil@x@example.com"},
    {"email": "ada@example.com "},
    {"email": "ada@еxample.com"},
)


def test_a_wrong_id_token_admits_nobody(admin: Client, providers: FakeProviders) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        for claims in WRONG_CLAIMS:
            providers.people["google"] = Person(claims=claims)
            answer = await replace(browser, cookies={}).open("/")
            assert isinstance(answer, Reply)
            assert answer.status == 403, claims

    run(admin, providers, module("google", email_domains=["example.com"]), test)


def test_addresses_of_foreign_tenants_do_not_count(admin: Client, providers: FakeProviders) -> None:
    cases: tuple[tuple[dict[str, Any], bool], ...] = (
        ({}, True),
        ({"preferred_username": "evil_example.com#EXT#@other.onmicrosoft.com"}, False),
        ({"preferred_username": "evil@other.example", "email": "ada@example.com"}, False),
        ({"preferred_username": "evil@other.example", "email": "ada@example.com", "xms_edov": True}, True),
        ({"preferred_username": "ada@example.com", "xms_edov": "true"}, False),
        ({"tid": "9188040d-6c67-4c5b-b112-36a304b66dad", "email": "ada@example.com"}, True),
    )

    async def test(browser: Browser, clock: Clock) -> None:
        for claims, passes in cases:
            providers.people["microsoft"] = Person(claims=claims)
            answer = await replace(browser, cookies={}).open("/")
            assert isinstance(answer, Forward) == passes, claims

    run(admin, providers, module("microsoft", email_domains=["example.com"]), test)
