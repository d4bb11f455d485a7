"""What closes OAuth: the store, the key service and the providers, each without an answer."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from botocore.exceptions import ClientError

from chalicelib.model.sign_in import sessions
from chalicelib.storage.client import aws, dynamodb
from chalicelib.storage.client.dynamodb import Condition, Write
from edge.sign_in.provider import provider_table
from edge.sign_in.replies import Forward, Reply
from tests.conftest import free_port
from tests.edge.sign_in import broken_keys
from tests.edge.sign_in.browser import Browser
from tests.edge.sign_in.fake_providers import FakeProviders, Person
from tests.edge.sign_in.in_process import Clock, run, serving
from tests.edge.sign_in.samples import module
from tests.transports import Client

AWAY = aws.Unavailable("away")
UNREADABLE = ClientError({"Error": {"Code": "InvalidCiphertextException", "Message": ""}}, "Decrypt")
NAVIGATES = {"sec-fetch-mode": "navigate"}


async def statuses(browser: Browser) -> Mapping[str, int]:
    """Return the statuses of all kinds of requests, 200 if the request is forwarded."""
    new = replace(browser, cookies={})
    answers = {
        "page": await new.get("/", **NAVIGATES),
        "other": await new.get("/", "POST"),
        "page of a session": await browser.get("/", **NAVIGATES),
        "other of a session": await browser.get("/", "POST"),
        "callback": await browser.get(f"/_service/callback?code=x&state={browser.state}"),
        "sign-in": await new.get("/_service/sign-in"),
        "sign-out": await replace(browser, cookies={}).get("/_service/sign-out"),
        "callback of the service": await browser.get_of_service(f"/callback?state={browser.state}"),
        "confirmation": await browser.get_of_service(f"/confirm?state={browser.state}"),
    }
    return {name: 200 if isinstance(answer, Forward) else answer.status for name, answer in answers.items()}


@pytest.mark.parametrize(
    "error", [AWAY, aws.Misconfigured("AccessDeniedException")], ids=lambda error: type(error).__name__
)
def test_without_the_store_no_session_passes_and_no_sign_in_succeeds(
    admin: Client, providers: FakeProviders, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        assert isinstance(await browser.open("/"), Forward)
        with broken_keys.failing(monkeypatch, error, "dynamodb"):
            found_statuses = await statuses(browser)
            async with serving(providers, clock) as new_service:
                cold = await statuses(replace(browser, service=new_service))
        statuses_without_reads = {"page": 302, "other": 401, "callback of the service": 302}  # which read nothing
        assert found_statuses == {**dict.fromkeys(found_statuses, 503), **statuses_without_reads}
        assert set(cold.values()) == {503}
        assert isinstance(await browser.get("/"), Forward)

    run(admin, providers, module("google"), test)


@pytest.mark.parametrize("error", [AWAY, UNREADABLE], ids=lambda error: type(error).__name__)
def test_without_the_key_service_a_service_that_starts_is_closed(
    admin: Client, providers: FakeProviders, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        assert isinstance(await browser.open("/"), Forward)
        with broken_keys.failing(monkeypatch, error):
            async with serving(providers, clock) as new_service:
                found_statuses = await statuses(replace(browser, service=new_service))
        assert found_statuses == {**dict.fromkeys(found_statuses, 503), "other": 401, "sign-out": 303}

    run(admin, providers, module("google"), test)


def test_without_the_key_service_no_sign_in_and_no_check_succeeds(
    admin: Client, providers: FakeProviders, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        assert isinstance(await browser.open("/"), Forward)
        with broken_keys.failing(monkeypatch, AWAY):
            found_statuses = await statuses(browser)
            clock.now += 101
            checked = await browser.get("/")
            answer_to_sign_in = await replace(browser, cookies={}).open("/")
        assert (found_statuses["page of a session"], found_statuses["callback"]) == (200, 503)  # the keys are in memory
        assert [answer.status for answer in (checked, answer_to_sign_in) if isinstance(answer, Reply)] == [503, 503]
        clock.now += 1
        assert isinstance(await browser.get("/"), Forward)  # the failed check delays no other one

    run(admin, providers, module("google", auth_check_interval=100), test)


@pytest.mark.parametrize("name", provider_table.PROVIDERS)
def test_without_a_provider_no_sign_in_succeeds(admin: Client, providers: FakeProviders, name: str) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        redirect = await browser.get("/", **NAVIGATES)
        assert isinstance(redirect, Reply)
        providers.authorize(name, {"redirect_uri": "", "state": ""})
        code, issuer = next(iter(providers.granted)), f"http://127.0.0.1:{providers.port}/gitlab"
        unreachable = replace(providers, port=free_port())
        async with serving(unreachable, clock) as service:
            own_issuer = f"http://127.0.0.1:{unreachable.port}/gitlab"
            browser.service = service
            state = f"state={browser.state}&code={code}&iss={own_issuer if name == 'gitlab' else issuer}"
            answer = await browser.get(f"/_service/callback?{state}")
        assert isinstance(answer, Reply)
        assert (answer.status, answer.headers["retry-after"], answer.cookies) == (503, "5", ())

    run(admin, providers, module(name), test)


def test_the_log_has_no_text_of_a_provider(
    admin: Client, providers: FakeProviders, capfd: pytest.CaptureFixture[str]
) -> None:
    providers.denial = "ada@example.com is blocked"

    async def test(browser: Browser, clock: Clock) -> None:
        answer = await browser.open("/")
        assert isinstance(answer, Reply)
        assert answer.status == 403

    run(admin, providers, module("github"), test)
    log = capfd.readouterr().err
    assert ("oauth_rejected" in log, "ada@example.com" in log) == (True, False)


def test_long_names_ids_and_answers_of_providers(admin: Client, providers: FakeProviders) -> None:
    cases = {
        "a long name": (Person(name="x" * (1 << 19)), 200),
        "an answer above 1 MiB": (Person(name="x" * (1 << 20)), 502),
        "a long address": (Person(email=f"{'x' * (1 << 19)}@example.com"), 200),  # which does not count
        "a long id": (Person(id="1" * 256), 502),
    }

    async def test(browser: Browser, clock: Clock) -> None:
        statuses_by_case = {}
        for name, (providers.people["linkedin"], _) in cases.items():
            answer = await replace(browser, cookies={}).open("/")
            statuses_by_case[name] = 200 if isinstance(answer, Forward) else answer.status
        assert statuses_by_case == {name: status for name, (_, status) in cases.items()}

    run(admin, providers, module("linkedin"), test)


def test_a_compressed_answer_of_a_provider_is_not_unpacked(admin: Client, providers: FakeProviders) -> None:
    providers.compresses = True  # one that unpacks to gigabytes would have to be read to count its bytes

    async def test(browser: Browser, clock: Clock) -> None:
        answer = await browser.open("/")
        assert isinstance(answer, Reply)
        assert answer.status == 502

    run(admin, providers, module("linkedin"), test)


@pytest.mark.parametrize(("name", "length", "status"), [("amazon", 2030, 200), ("facebook", 5000, 502)])
def test_long_tokens_of_providers(admin: Client, providers: FakeProviders, name: str, length: int, status: int) -> None:
    """Amazon's tokens have up to 2,048 bytes each, and KMS encrypts 4,096 at once."""
    providers.tail = "x" * length

    async def test(browser: Browser, clock: Clock) -> None:
        answer = await browser.open("/")
        assert (200 if isinstance(answer, Forward) else answer.status) == status
        if status == 200:
            clock.now += 101
            assert isinstance(await browser.get("/"), Forward)  # checked by its token

    run(admin, providers, module(name, auth_check_interval=100), test)


def test_a_session_whose_tokens_cannot_be_decrypted_ends_with_its_interval(
    admin: Client, providers: FakeProviders
) -> None:
    async def test(browser: Browser, clock: Clock) -> None:
        assert isinstance(await browser.open("/"), Forward)
        item_key = sessions.scope_of(browser.session_id()), sessions.ID
        dynamodb.do(Write.update(*item_key, Condition("attribute_exists(#id)"), sets={"body.tokens": b"damaged"}))
        assert isinstance(await browser.get("/"), Forward)
        clock.now += 101
        answers = [await browser.get("/", "POST"), await browser.get("/", **NAVIGATES)]
        assert [answer.status for answer in answers if isinstance(answer, Reply)] == [401, 302]

    run(admin, providers, module("google", auth_check_interval=100), test)
