"""What a request may do by its session."""

from dataclasses import replace
from typing import Any

import pytest

from chalicelib.model.edges.sign_in_rules import SignInRule
from chalicelib.model.sign_in.sessions import Session
from edge.sign_in.session import decisions
from edge.sign_in.session.decisions import Access
from tests.edge.sign_in.samples import RULE, SESSION


def access(session: Session | None, rule: SignInRule = RULE, now: float = 1000, client_id: str = "app") -> Access:
    return decisions.decide(session, rule, client_id, now).access


@pytest.mark.parametrize("field", ["account", "edge", "route", "provider", "client_id", "cookie_prefix"])
def test_a_session_counts_only_where_it_began(field: str) -> None:
    assert access(SESSION) is Access.PASS
    changes: dict[str, Any] = {field: "other"}
    assert access(replace(SESSION, **changes)) is Access.SIGN_IN
    assert access(None) is Access.SIGN_IN
    assert access(SESSION, client_id="") is Access.SIGN_IN


@pytest.mark.parametrize(
    ("limit", "now", "expected"),
    [
        ({"maximum_duration": 10}, 1009.9, Access.PASS),
        ({"maximum_duration": 10}, 1010, Access.SIGN_IN),
        ({"inactivity_timeout": 10}, 1009.9, Access.PASS),
        ({"inactivity_timeout": 10}, 1010, Access.SIGN_IN),
        ({"auth_check_interval": 10}, 1009.9, Access.PASS),
        ({"auth_check_interval": 10}, 1010, Access.ASK),
        ({}, 1000 + 24 * 60 * 60, Access.ASK),
        ({"teams": ("acme/core",)}, 1000, Access.ASK),  # the provider was not asked for it
        ({"email_domains": ("other.example",)}, 1000, Access.DENY),
    ],
)
def test_a_session_ends_with_its_limits(limit: dict[str, Any], now: float, expected: Access) -> None:
    assert access(SESSION, replace(RULE, **limit), now) is expected


LIMITS: list[dict[str, Any]] = [
    *({name: value} for name in ("maximum_duration", "auth_check_interval") for value in (1, 2, 3, 5, 7, 300)),
    *({"inactivity_timeout": value} for value in (2, 4, 7, 40, 300)),
    {"maximum_duration": 9, "auth_check_interval": 4, "inactivity_timeout": 6},
]


@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_no_copy_of_a_token_outlives_a_limit_by_more_than_a_second(limit: dict[str, Any]) -> None:
    rule = replace(RULE, **limit)
    hard = [limit[name] for name in ("maximum_duration", "auth_check_interval") if name in limit]
    for step in range(0, 20 * min(limit.values()), 3):
        now = 1000 + step / 10
        decision = decisions.decide(SESSION, rule, "app", now)
        if decision.access is Access.PASS and decision.lifetime:
            last = int(now) + decision.lifetime + 2  # Envoy compares whole seconds, with a second of skew
            assert decision.lifetime <= 59
            assert all(last <= 1000 + seconds + 1 for seconds in hard), (now, decision.lifetime)
            if idle := limit.get("inactivity_timeout"):
                assert last <= now + idle + 1, (now, decision.lifetime)


def test_a_use_that_is_not_stored_ends_before_the_next_one_is() -> None:
    rule = replace(RULE, inactivity_timeout=40)
    for step in range(90):
        now = 1000 + step / 10
        if not decisions.is_seen_late(SESSION, rule, now):
            decision = decisions.decide(SESSION, rule, "app", now)
            assert int(now) + decision.lifetime <= 1010
    assert decisions.is_seen_late(SESSION, rule, 1009)
    assert not decisions.is_seen_late(SESSION, RULE, 9999)
