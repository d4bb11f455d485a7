"""Checks of sessions at their provider: how many calls they make, for one host and for two."""

import asyncio
import itertools

import pytest

from edge.sign_in.replies import Forward, Reply
from tests.edge.sign_in.browser import Browser
from tests.edge.sign_in.fake_providers import FakeProviders
from tests.edge.sign_in.in_process import Clock, run, serving
from tests.edge.sign_in.samples import module
from tests.transports import Client

INTERVAL, STEP = 100, 5  # seconds
ROUND = ["github/api/user", "github/api/user/emails"]


def test_twenty_requests_at_two_hosts_ask_the_provider_once(admin: Client, providers: FakeProviders) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        assert isinstance(await browser.open("/"), Forward)
        providers.calls.clear()
        clock.now += INTERVAL + 1
        async with serving(providers, clock) as service:
            other = Browser(service, browser.rule, cookies=browser.cookies)
            answers = await asyncio.gather(
                *(each_browser.get("/") for each_browser in (browser, other) for _ in range(10))
            )
        assert all(isinstance(answer, Forward) for answer in answers)
        assert providers.calls == ROUND

    run(admin, providers, module("github", auth_check_interval=INTERVAL), test)


@pytest.mark.parametrize("hosts", [1, 2])
def test_a_session_in_constant_use_asks_the_provider_once_in_an_interval(
    admin: Client, providers: FakeProviders, hosts: int
) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        assert isinstance(await browser.open("/"), Forward)
        providers.calls.clear()
        asked_at: list[float] = []
        async with serving(providers, clock) as service:
            browsers = [browser, Browser(service, browser.rule, cookies=browser.cookies)][:hosts]
            for _ in range(0, 5 * INTERVAL, STEP):
                clock.now += STEP
                answers = await asyncio.gather(*(browser.get("/") for browser in browsers for _ in range(2)))
                assert all(isinstance(answer, Forward) for answer in answers)
                await other_tasks()
                asked_at += [clock.now] * (providers.calls.count(ROUND[0]) - len(asked_at))
        assert providers.calls == ROUND * len(asked_at)
        pauses = [later - earlier for earlier, later in itertools.pairwise(asked_at)]
        assert len(asked_at) == 6
        assert min(pauses) >= INTERVAL * 3 / 4

    run(admin, providers, module("github", auth_check_interval=INTERVAL), test)


def test_a_check_that_found_no_place_is_made_as_soon_as_there_is_one(admin: Client, providers: FakeProviders) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        browsers = [browser, *(Browser(browser.service, browser.rule) for _ in range(2))]
        for each_browser in browsers:
            assert isinstance(await each_browser.open("/"), Forward)
        providers.silent.add("github")
        clock.now += INTERVAL + 1
        answers = await asyncio.gather(
            *(browser.get("/") for browser in browsers)
        )  # an account may make two exchanges at once
        assert [answer.status for answer in answers if isinstance(answer, Reply)] == [503, 503, 503]
        providers.silent.clear()
        clock.now += 2
        assert [type(await browser.get("/")) for browser in browsers] == [Forward] * 3

    run(admin, providers, module("github", auth_check_interval=INTERVAL), test, timeout=1)


async def other_tasks() -> None:
    """Wait until the checks that run beside requests have ended."""
    current_task = asyncio.current_task()
    while other_tasks_now := asyncio.all_tasks() - {current_task}:
        await asyncio.wait(other_tasks_now)
