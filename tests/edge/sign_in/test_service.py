"""Sign-ins at eight providers, in process: a browser, the service, the store, and fake providers on loopback."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from edge.sign_in.provider import table
from edge.sign_in.provider.exchange import Exchange
from edge.sign_in.records import SignInRecords
from edge.sign_in.replies import Forward, Reply
from edge.sign_in.service import SignInService
from tests.edge.sign_in import fake_providers
from tests.edge.sign_in.browser import SIGN_IN_HOST, Browser
from tests.edge.sign_in.fake_providers import FakeProviders, Person
from tests.transports import Client

PROVIDERS = ("github", "google", "microsoft", "gitlab", "linkedin", "twitch", "facebook", "amazon")


class Clock:
    """A clock that stands until it is moved. It begins at the real time."""

    def __init__(self) -> None:
        import time

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


def run(
    admin: Client, fake: FakeProviders, module: dict[str, Any], test: Callable[[Browser, Clock], Awaitable[None]]
) -> None:
    """Run a test with a browser of a route that has the module."""
    edge = admin.create("/edges/https", {"hostports": ["app.tunnels.localhost:443"]})
    route = admin.create(f"/edges/https/{edge['id']}/routes", {"match_type": "path_prefix", "match": "/"})
    assert admin.put(f"/edges/https/{edge['id']}/routes/{route['id']}/oauth", module).status == 200

    async def work() -> None:
        clock, records = Clock(), SignInRecords()
        exchange = Exchange(timeout=2, call_timeout=1, clock=clock, watch_date=lambda date: None)
        service = SignInService(
            records,
            exchange,
            table.with_endpoints(fake.endpoints()),
            sign_in_url=f"https://{SIGN_IN_HOST}",
            max_exchanges=8,
            clock=clock,
        )
        await records.refresh()
        rule = await records.current_rule(admin.account, edge["id"], route["id"])
        assert rule
        try:
            await test(Browser(service, rule), clock)
        finally:
            await exchange.close()

    asyncio.run(work())


def module(name: str, **lists: Any) -> dict[str, Any]:
    own = {key: lists.pop(key) for key in list(lists) if key.endswith(("_timeout", "_duration", "_interval"))}
    app = {"client_id": "app", "client_secret": "very secret"}
    return {"provider": {name: {**app, **lists}}, **own}


@pytest.mark.parametrize("name", PROVIDERS)
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


@pytest.mark.parametrize("name", PROVIDERS)
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
