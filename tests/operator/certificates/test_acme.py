"""The operator's view of automatic certificates."""

import re
from dataclasses import replace

import pytest

from chalicelib import clock
from chalicelib.model.names import renewal_schedule
from chalicelib.model.tls import acme_accounts
from chalicelib.model.tls.acme_accounts import AcmeAccount
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Write
from tests.operator.commands import Output, expect_failure, run_without_errors
from tests.transports import Client

DIRECTORY = "https://ca.example/directory"
POLICY = {"authority": "letsencrypt"}


@pytest.fixture
def offered(tunnel_domain: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_DIRECTORY", DIRECTORY)
    monkeypatch.setenv("ACME_DNS_ZONE", "acme.example")
    monkeypatch.setenv("TUNNEL_DOMAIN", "tunnels.localhost")


def test_without_a_directory_there_is_no_status(admin: Client) -> None:
    assert expect_failure("acme", "status") == (
        "ACME_DIRECTORY is not set: set it to the same value as for the issuer of certificates."
    )
    assert str(expect_failure("acme", "rotate")).startswith("There is no account at the CA of ACME_DIRECTORY")


def test_the_status_shows_records_to_publish_and_what_fails(offered: None, admin: Client, capsys: Output) -> None:
    assert run_without_errors(capsys, "acme", "status")[:2] == [
        f"directory {DIRECTORY}",
        "account none yet: the issuer registers it",
    ]
    acme_accounts.find_or_create(DIRECTORY, lambda: b"key")
    account = AcmeAccount(DIRECTORY, "https://ca.example/account/1", ["ca.example"])
    acme_accounts.describe(account)
    reservation = admin.create(
        "/reserved_domains", {"domain": "app.example.com", "certificate_management_policy": POLICY}
    )
    (due,) = renewal_schedule.find_due(clock.seconds(), 10)
    failed = replace(due.entry.renewal, due_at=1_900_000_000, error_code="internal", msg="Wait.", attempts=2)
    failed = replace(failed, reason="the DNS server rejects updates: REFUSED")
    assert renewal_schedule.postpone(due, failed)
    lines = run_without_errors(capsys, "acme", "status")
    assert lines[:4] == [
        f"directory {DIRECTORY}",
        "account https://ca.example/account/1",
        "orders in the last three hours, without renewals: 0; 250 more are possible",
        "domains 1, running 0, failing 1",
    ]
    value = "ca.example; accounturi=https://ca.example/account/1; validationmethods=dns-01"
    assert lines[4] == f'CAA tunnels.localhost. CAA 0 issue "{value}"'
    assert lines[5] == "CAA: no issuer has checked the records yet"
    assert re.fullmatch(r"alias _acme-challenge\.tunnels\.localhost\. CNAME [0-9a-f]{32}\.acme\.example\.", lines[6])
    assert lines[7] == "operator has no certificate"
    sentence = "Wait. (the DNS server rejects updates: REFUSED)"
    assert lines[8:] == [
        f"failing {admin.account} {reservation['id']} 2 attempts failed, the last with internal; the next is at "
        f"2030-03-17T17:46:40Z: {sentence}"
    ]
    acme_accounts.describe(replace(account, caa="missing"))
    assert run_without_errors(capsys, "acme", "status")[5].startswith("CAA missing: publish the record above")
    acme_accounts.describe(replace(account, caa="published"))
    assert run_without_errors(capsys, "acme", "status")[5] == "CAA published"


def test_a_certificate_of_a_proved_domain_can_be_renewed_at_once(offered: None, admin: Client, capsys: Output) -> None:
    reservation = admin.create(
        "/reserved_domains", {"domain": "app.example.com", "certificate_management_policy": POLICY}
    )
    assert (
        expect_failure("acme", "renew", "app.example.com")
        == "No account has a reserved domain app.example.com that is proved."
    )
    body = {"account": admin.account, "id": reservation["id"]}
    dynamodb.do(Write.put({"scope": "domain#app.example.com", "id": "claim", "body": body, "revision": 1}))
    (due,) = renewal_schedule.find_due(clock.seconds(), 10)
    assert renewal_schedule.postpone(due, replace(due.entry.renewal, due_at=1_900_000_000, started_at=0))
    assert renewal_schedule.find_due(clock.seconds(), 10) == []
    (line,) = run_without_errors(capsys, "acme", "renew", "App.example.com")
    assert line.startswith(f"App.example.com of {admin.account} is due at {clock.rfc3339(clock.now())[:10]}")
    (due,) = renewal_schedule.find_due(clock.seconds(), 10)
    assert due.entry.renewal.started_at
    admin.delete(f"/reserved_domains/{reservation['id']}/certificate_management_policy")
    assert str(expect_failure("acme", "renew", "app.example.com")).startswith(
        "app.example.com has no certificate policy"
    )
    assert str(expect_failure("acme", "renew", "no domain")).startswith("no domain must be a domain")


def test_a_change_of_the_key_is_requested(offered: None, admin: Client, capsys: Output) -> None:
    acme_accounts.find_or_create(DIRECTORY, lambda: b"key")
    assert run_without_errors(capsys, "acme", "rotate") == [
        "The issuer changes the key within a minute, and then starts again."
    ]
    acme_account = acme_accounts.find(DIRECTORY)
    assert acme_account
    assert acme_account.rotates
