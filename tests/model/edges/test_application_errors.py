"""Stored errors of routes' OAuth applications."""

from dataclasses import replace
from datetime import timedelta

import pytest

from chalicelib import clock
from chalicelib.model.edges import application_errors
from chalicelib.model.edges.application_errors import ApplicationError
from chalicelib.model.edges.sign_in_rules import SignInRule
from chalicelib.storage.client import dynamodb

pytestmark = pytest.mark.usefixtures("admin")
RULE = SignInRule("github", "digest", "acct_1", "edghts_1", "edghtsrt_1")
OTHER = replace(RULE, route="edghtsrt_2")


def read() -> dict[str, ApplicationError]:
    record = dynamodb.get(*application_errors.item_key(RULE.account, RULE.edge))
    return application_errors.decode(record["body"]) if record else {}


def test_the_errors_of_routes_are_independent() -> None:
    application_errors.remove(RULE)
    assert read() == {}
    application_errors.write(RULE, "application")
    application_errors.write(OTHER, "secret")
    application_errors.write(RULE, "secret")
    assert {route: (error.digest, error.reason) for route, error in read().items()} == {
        RULE.route: ("digest", "secret"),
        OTHER.route: ("digest", "secret"),
    }
    application_errors.remove(RULE)
    assert [*read()] == [OTHER.route]


def test_an_error_counts_for_a_day() -> None:
    times = {"new": timedelta(hours=23), "old": timedelta(hours=25)}
    body = {
        route: {"digest": "d", "at": clock.rfc3339(clock.now() - age), "reason": "secret"}
        for route, age in times.items()
    }
    assert [*application_errors.decode(body)] == ["new"]
