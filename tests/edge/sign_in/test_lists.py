"""Which users the lists of a route admit, with the facts of fake providers."""

import pytest

from edge.sign_in.replies import Forward, Reply
from tests.edge.sign_in.browser import Browser
from tests.edge.sign_in.fake_providers import FakeProviders, Person
from tests.edge.sign_in.in_process import Clock, run
from tests.edge.sign_in.samples import module
from tests.transports import Client


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
