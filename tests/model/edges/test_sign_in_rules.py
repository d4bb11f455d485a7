"""The rule of an OAuth module."""

from dataclasses import replace
from typing import Any

import pytest

from chalicelib.model.edges.modules import oauth
from chalicelib.model.edges.modules.oauth import OAuthModule
from chalicelib.model.edges.sign_in_rules import MAX_DURATION, SignInRule

GITHUB = {"client_id": "app", "client_secret": b"sealed"}


def rule(provider: dict[str, Any] | None = None, **more: Any) -> SignInRule:
    module = OAuthModule.of({"provider": {"github": {**GITHUB, **(provider or {})}}, **more})
    rule = oauth.make_rule(module)
    assert rule
    return rule.of_route("acct_1", "edghts_1", "edghtsrt_abcdefghijkl")


def test_cookies_are_named_by_prefix_and_route() -> None:
    sign_in_rule = rule(cookie_prefix="my.")
    assert (sign_in_rule.session_cookie, sign_in_rule.id_cookie, sign_in_rule.login_cookie) == (
        "my.session.ghijkl",
        "__Host-my.id.ghijkl",
        "__Host-my.login",
    )


@pytest.mark.parametrize(
    "change",
    [
        {"provider": {"client_id": "other"}},
        {"provider": {"client_secret": b"other"}},
        {"provider": {"scopes": ["a"]}},
        {"provider": {"email_addresses": ["a@b"]}},
        {"provider": {"email_domains": ["b"]}},
        {"provider": {"teams": ["a/b"]}},
        {"provider": {"organizations": ["a"]}},
        {"cookie_prefix": "other."},
        {"inactivity_timeout": 1},
        {"maximum_duration": 1},
        {"auth_check_interval": 1},
    ],
    ids=str,
)
def test_each_field_that_decides_about_access_changes_the_audience(change: dict[str, Any]) -> None:
    assert rule(**change).audience != rule().audience


def test_options_passthrough_and_null_lists_leave_the_audience() -> None:
    sign_in_rule = rule({"teams": None, "organizations": None, "email_domains": []}, options_passthrough=True)
    assert sign_in_rule.audience == rule().audience
    assert rule().is_open_to_all


def test_zero_is_no_limit_of_its_own() -> None:
    sign_in_rule, day = rule(), 24 * 60 * 60
    assert (sign_in_rule.check_interval, sign_in_rule.max_session, sign_in_rule.max_stream) == (day, MAX_DURATION, day)
    limited = replace(sign_in_rule, maximum_duration=MAX_DURATION + 1, auth_check_interval=7)
    assert (limited.check_interval, limited.max_session, limited.max_stream) == (7, MAX_DURATION, 7)


@pytest.mark.parametrize("providers", [{}, {"github": GITHUB, "google": GITHUB}])
def test_a_module_without_exactly_one_provider_has_no_rule(providers: dict[str, Any]) -> None:
    assert oauth.make_rule(OAuthModule.of({"provider": providers})) is None
