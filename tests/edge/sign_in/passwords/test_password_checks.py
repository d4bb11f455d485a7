"""Decisions about passwords, with the modules of routes and reservations in the store."""

import asyncio
import base64
import gc
import time
from dataclasses import replace
from statistics import median

import pytest
from botocore.exceptions import ClientError

from chalicelib.model.base import kinds
from chalicelib.model.edges import application_errors, edges
from chalicelib.model.edges.modules.basic_auth import MODULE
from chalicelib.model.edges.served import Modules
from chalicelib.modules import basic_auth
from chalicelib.storage.records import items, table
from edge.sign_in.passwords.password_checks import PasswordAnswer, PasswordChecks, PasswordRequest
from tests.edge.sign_in import broken_keys
from tests.modules.samples import on_a_holder
from tests.transports import Client

ON_ROUTE = next(candidate for candidate in basic_auth.MODULES if "routes" in candidate.path)
USERS = [{"username": "ada", "password": "correct horse"}, {"username": "grace", "password": "p:ss wörd"}]
PASSES = PasswordAnswer(200, is_current=True)


def header(username: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"


def request(admin: Client, module: str) -> PasswordRequest:
    """Return a request with the first password, with the digest of the module now."""
    is_route = "/routes/" in module
    edge, resource = (module.split("/")[3] if is_route else ""), module.split("/")[-2]
    scope = items.scope(admin.account, (kinds.HTTPS_EDGES if is_route else kinds.RESERVED_DOMAINS).path)
    item = table.find(edges.routes_scope(scope, edge) if is_route else scope, resource)
    assert item
    item_modules = Modules.of(item.modules, kinds.HTTPS_EDGE_ROUTES if is_route else kinds.RESERVED_DOMAINS)
    rule = item_modules.get(MODULE)
    digest = rule.digest if rule else ""
    return PasswordRequest(admin.account, edge, resource, digest, "192.0.2.1", header("ada", "correct horse"))


def check(checks: PasswordChecks, *requests: PasswordRequest) -> list[PasswordAnswer]:
    """Return the answers to requests at once."""

    async def run() -> list[PasswordAnswer]:
        return await asyncio.gather(*map(checks.check, requests))

    return asyncio.run(run())


@pytest.fixture(params=["route", "reservation"])
def module(admin: Client, request: pytest.FixtureRequest) -> str:
    """Set a module; return its path."""
    if request.param == "route":
        path = on_a_holder(admin, ON_ROUTE)
    else:
        path = f"/reserved_domains/{admin.create('/reserved_domains', {'domain': 'a.example.com'})['id']}/basic_auth"
    assert admin.put(path, {"credentials": USERS}).status == 200
    return path


def test_the_password_of_a_user_passes(admin: Client, module: str) -> None:
    checks, right = PasswordChecks(), request(admin, module)
    other = replace(right, authorization=header("grace", "p:ss wörd"))
    assert check(checks, right, other) + check(checks, right) == [PASSES] * 3
    for username, password in (("ada", "p:ss wörd"), ("Ada", "correct horse"), ("", ""), ("alan", "correct horse")):
        assert check(checks, replace(right, authorization=header(username, password))) == [PasswordAnswer(401)]
    assert check(checks, replace(right, authorization="")) == [PasswordAnswer(401)]


def test_passwords_at_once_are_counted_before_they_are_verified(admin: Client, module: str) -> None:
    checks, right = PasswordChecks(lambda: 0.0), request(admin, module)
    guesses = [replace(right, authorization=header("ada", f"guess {number}")) for number in range(30)]
    statuses = [response.status for response in check(checks, *guesses)]
    assert statuses == [401] * 10 + [429] * 20
    assert check(checks, right) == [PasswordAnswer(429, 6)]
    assert check(checks, replace(right, address="192.0.2.2")) == [PASSES]
    assert check(checks, replace(right, authorization="")) == [PasswordAnswer(401)]


def test_one_password_many_times_at_once_is_verified_once(admin: Client, module: str) -> None:
    checks, right = PasswordChecks(), request(admin, module)
    assert check(checks, *[right] * 200) == [PASSES] * 200


def test_passwords_that_wait_have_a_bound(admin: Client, module: str) -> None:
    checks, right = PasswordChecks(), request(admin, module)
    responses = check(checks, *(replace(right, address=f"10.0.0.{number}") for number in range(100)))
    assert {response.status for response in responses} == {200, 503}
    assert sum(response.status == 200 for response in responses) >= 16
    assert check(checks, right) == [PASSES]


def test_a_changed_module_is_read_by_its_digest(admin: Client, module: str) -> None:
    checks, before = PasswordChecks(), request(admin, module)
    assert check(checks, before) == [PASSES]
    admin.put(module, {"credentials": USERS[1:]})
    after = request(admin, module)
    assert before.digest != after.digest
    assert check(checks, after) == [PasswordAnswer(401)]
    other = replace(before, authorization=header("grace", "p:ss wörd"))
    assert check(PasswordChecks(), other) == [PasswordAnswer(200)]  # Envoy knows another module, and remembers nothing


def test_a_holder_without_the_module_is_closed(admin: Client, module: str) -> None:
    right = request(admin, module)
    for other in (replace(right, owner="edghtsrt_1"), replace(right, account="acct_1")):
        assert check(PasswordChecks(), other) == [PasswordAnswer(503)]
    admin.put(module, {"enabled": False, "credentials": USERS})
    assert check(PasswordChecks(), right) == [PasswordAnswer(503)]
    admin.delete(module)
    assert check(PasswordChecks(), right) == [PasswordAnswer(503)]


@broken_keys.each_error
def test_a_store_or_key_that_cannot_be_used_closes(
    admin: Client, module: str, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    checks, right = PasswordChecks(), request(admin, module)
    with broken_keys.failing(monkeypatch, error):
        assert check(checks, right) == [PasswordAnswer(503)]
    reported = table.find(*application_errors.item_key(admin.account, right.edge)) if right.edge else None
    assert bool(reported) is (isinstance(error, ClientError) and bool(right.edge))
    assert check(checks, right) == [PASSES]


def test_time_does_not_tell_whether_a_user_exists(admin: Client, module: str) -> None:
    checks, right = PasswordChecks(), request(admin, module)
    seconds_by_user: dict[str, list[float]] = {"ada": [], "alan": []}
    gc.disable()
    try:
        for number in range(60):
            for username, seconds in seconds_by_user.items():
                guess = replace(right, address=f"10.1.{number}.1", authorization=header(username, f"guess {number}"))
                start = time.process_time()
                assert check(checks, guess) == [PasswordAnswer(401)]
                seconds.append(time.process_time() - start)
    finally:
        gc.enable()
    user_seconds, stranger_seconds = map(median, seconds_by_user.values())
    assert 0.8 < user_seconds / stranger_seconds < 1.25
