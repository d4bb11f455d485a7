"""Stored sessions."""

from dataclasses import replace

import pytest

from chalicelib.model.sign_in import sessions
from chalicelib.model.sign_in.sessions import Session
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, Write

pytestmark = pytest.mark.usefixtures("admin")
SESSION = Session(
    account="acct_1",
    edge="edghts_1",
    route="edghtsrt_1",
    provider="github",
    client_id="app",
    cookie_prefix="service.",
    subject="1",
    signed_in_at=1000,
    seen_at=1000,
    checked_at=1000,
    tokens=b"sealed",
)


def test_a_session_is_found_by_its_id_alone() -> None:
    sessions.write("secret", SESSION, until=2000)
    assert sessions.read("secret") == SESSION
    assert sessions.read("Secret") is None
    assert "secret" not in sessions.scope_of("secret")
    sessions.end("secret")
    assert sessions.read("secret") is None


def test_only_one_check_runs_and_an_ended_session_stays_ended() -> None:
    assert not sessions.begin_check("gone", 1000, until=1012)
    sessions.write("one", SESSION, until=2000)
    assert [sessions.begin_check("one", 1000, until=1012) for _ in range(2)] == [True, False]
    sessions.delay_check("one", until=1001)
    assert [sessions.begin_check("one", now, until=1013) for now in (1000, 1001)] == [False, True]
    checked = replace(SESSION, name="Ada", checked_at=1100)
    sessions.record_seen("one", 1050)
    assert sessions.replace("one", checked, SESSION)
    assert sessions.read("one") == replace(checked, seen_at=1050)  # a check does not undo a use
    assert not sessions.replace("one", replace(checked, name="Eve"), SESSION)
    sessions.end("one")
    assert not sessions.replace("one", checked, checked)
    assert not sessions.record_seen("one", 1200)
    sessions.delay_check("one", until=1001)
    assert sessions.read("one") is None


def test_a_malformed_record_is_no_session() -> None:
    sessions.write("one", SESSION, until=2000)
    sets = {"body.cookie_prefix": 7}
    dynamodb.do(Write.update(sessions.scope_of("one"), sessions.ID, Condition(""), sets=sets))
    assert sessions.read("one") is None
