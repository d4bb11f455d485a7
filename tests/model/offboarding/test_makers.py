"""What the event of a creation says of a resource in a tree. Pure."""

from typing import Any

import pytest

from chalicelib import clock, ids
from chalicelib.model.offboarding.makers import TreeResource


def resource(prefix: str, **details: Any) -> TreeResource:
    return TreeResource(ids.new(prefix), "", "", details)


@pytest.mark.parametrize(
    ("scopes", "makes"),
    [
        (["*"], True),
        (["api_keys:create"], True),
        (["api_keys:write"], True),
        (["ssh_credentials:write"], True),
        (["federated_credentials:write"], True),
        (["ssh_user_certificates:create@sshca_0"], True),
        (["ssh_host_certificates:write@sshca_0", "edges:read"], True),
        (["*:read"], False),
        (["api_keys:read"], False),
        (["edges:write", "backends:write"], False),
        (["ssh_certificate_authorities:write"], False),
        (None, True),  # an event of an earlier version, without the scopes
        ("*", True),
    ],
)
def test_only_some_keys_can_make_what_ends_with_them(scopes: object, makes: bool) -> None:
    assert resource("ak", scopes=scopes).may_make is makes


def test_only_keys_and_federated_credentials_can_make_resources() -> None:
    permissions = {prefix: resource(prefix).may_make for prefix in ("ak", "fcred", "sshcred", "sshucrt", "bot")}
    assert permissions == {"ak": True, "fcred": True, "sshcred": False, "sshucrt": False, "bot": False}


@pytest.mark.parametrize(("seconds", "has_ended"), [(-60, True), (0, True), (60, False)])
def test_a_certificate_ends_at_its_time(monkeypatch: pytest.MonkeyPatch, seconds: int, has_ended: bool) -> None:
    monkeypatch.setattr(clock, "seconds", lambda: 1_800_000_000)
    until = clock.rfc3339(clock.at(1_800_000_000 + seconds))
    assert resource("sshucrt", valid_until=until).has_ended() is has_ended


@pytest.mark.parametrize("until", [None, "", "never", "2026-13-01T00:00:00Z"])
def test_a_certificate_without_a_readable_end_has_not_ended(until: object) -> None:
    assert resource("sshucrt", valid_until=until).has_ended() is False
