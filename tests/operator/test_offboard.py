"""The operator's commands that offboard, and the check of what they can find."""

import pytest

from tests.model.offboarding.trees import AUTHORITIES, CERTIFICATES, KEYS, advance_clock, build_request, child, key_of
from tests.operator.commands import Output, expect_failure, run_without_errors
from tests.transports import Client


def end(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the service believe that each wait is over at once."""
    monkeypatch.setattr(
        "chalicelib.operator.suspensions.time.sleep", lambda seconds: advance_clock(monkeypatch, seconds)
    )


def test_a_command_repeats_the_call_until_it_is_complete(
    admin: Client, member: Client, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    end(admin, monkeypatch)
    authority = admin.create(AUTHORITIES, {})["id"]
    child_client = child(member)
    child_client.create(CERTIFICATES, build_request(authority))
    host = child_client.create("/ssh_host_certificates", build_request(authority))["id"]
    lines = run_without_errors(capsys, "users", "offboard", admin.account, member.user, "--reason", "left the company")
    assert lines == [
        "not complete yet: ended 2 API key, 1 SSH user certificate",
        "complete: ended nothing",
        f"kept {host} {member.user}",
    ]
    (event,) = admin.get(f"/audit_events?resource_id={member.user}&action=user.update").json["audit_events"]
    assert (event["actor"]["type"], event["details"]["reason"]) == ("operator", "left the company")
    assert member.get("/me").status == child_client.get("/me").status == 401


def test_each_kind_has_the_command(admin: Client, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    end(admin, monkeypatch)
    fields = {"issuer": "https://token.actions.githubusercontent.com", "claims": {"repository_id": "1"}}
    bot = admin.create("/bot_users", {"name": "bot"})["id"]
    federated = admin.create("/federated_credentials", {**fields, "scopes": ["edges:write"], "owner_id": bot})["id"]
    key = key_of(child(admin))
    for group, id in (("federated", federated), ("bots", bot), ("keys", key)):
        assert run_without_errors(capsys, group, "offboard", admin.account, id)[-1].startswith("complete: ended ")
    assert admin.get(f"{KEYS}/{key}").status == 404
    assert (
        expect_failure("keys", "offboard", admin.account, key) == f"The account {admin.account} has no API key {key}."
    )
    assert (
        expect_failure("bots", "offboard", admin.account, key) == f"The account {admin.account} has no bot user {key}."
    )
    last = f"{admin.user} is the last active admin of {admin.account}: add another one first."
    assert expect_failure("users", "offboard", admin.account, admin.user) == last


def test_the_check_names_policies_beyond_the_audit_days(
    admin: Client, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    authority = admin.create(AUTHORITIES, {})["id"]
    day = 24 * 60 * 60
    assert admin.put(f"{AUTHORITIES}/{authority}/policy", {"user": {"max_lifetime": 30 * day}}).status == 200
    assert run_without_errors(capsys, "store", "check") == ["No problem was found."]
    monkeypatch.setenv("AUDIT_DAYS", "29")
    assert expect_failure("store", "check") == "1 problems were found."
    assert capsys.readouterr().out == (
        f"AUDIT_DAYS is 29: offboarding does not find older certificates, but the policy of {authority} of"
        f" {admin.account} permits user certificates of {30 * day} seconds.\n"
    )
