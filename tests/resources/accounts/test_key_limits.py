"""The limits of new API keys, within those of the account and of the creating key."""

from collections.abc import Iterator
from typing import Any

import pytest

from chalicelib.model.limits.counters import OF_PROCESS
from chalicelib.operator import commands
from tests.refusals import assert_invalid, assert_refused
from tests.transports import Client

KEYS = "/api_keys"


@pytest.fixture(autouse=True)
def counted_anew() -> Iterator[None]:
    OF_PROCESS.forget()
    yield
    OF_PROCESS.forget()


def test_a_key_can_have_a_lower_limit_than_its_account(admin: Client) -> None:
    commands.main(["accounts", "limits", admin.account, "--requests-per-second", "50", "--burst", "60"])
    key = admin.create(KEYS, {"limits": {"requests_per_second": 1}})
    assert key["limits"] == {"requests_per_second": 1, "burst": 1}
    client = admin.with_token(key["token"])
    assert client.get(KEYS).status == 200
    assert_refused(
        client.get("/backends/weighted"),
        429,
        "rate_limited",
        "This API key sends too many requests: try again after the time in Retry-After.",
    )
    assert "limits" not in admin.create(KEYS, {})
    above = admin.post(KEYS, {"limits": {"requests_per_second": 51, "burst": 61}})
    rule = "must be at most {}, the limit of the account"
    assert_invalid(above, {"limits.requests_per_second": rule.format(50), "limits.burst": rule.format(60)})
    bad_limits: list[Any] = [{}, {"requests_per_second": 0}, {"requests_per_second": 1, "burst": 0}, []]
    for wrong in bad_limits:
        assert admin.post(KEYS, {"limits": wrong}).status == 400


def test_a_limited_key_makes_only_keys_that_are_limited_too(admin: Client) -> None:
    limits = {"requests_per_second": 5, "burst": 8}
    limited = admin.with_token(admin.create(KEYS, {"limits": limits})["token"])
    assert limited.create(KEYS, {})["limits"] == limits
    refusal = limited.post(KEYS, {"limits": {"requests_per_second": 6}})
    assert (refusal.status, refusal.json["error_code"]) == (403, "forbidden")
    assert refusal.json["details"]["limits.requests_per_second"] == "must be at most 5, the limit of your own key"
