"""`accounts import`: an export becomes the content of a new account, or nothing is written."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from chalicelib import ids
from chalicelib.model.tenants import portable
from chalicelib.operator.accounts import create_account
from chalicelib.operator.command_line import CommandError
from chalicelib.operator.tenants import deletion, exporting
from chalicelib.operator.tenants.importing import Import
from tests import samples
from tests.operator.commands import expect_failure, run
from tests.operator.tenants import busy, killing, worlds
from tests.transports import Client

LISTS = (
    *(
        "/backends/http_response",
        "/backends/tunnel_group",
        "/backends/weighted",
        "/bot_users",
        "/certificate_authorities",
    ),
    *("/edges/https", "/edges/tcp", "/edges/tls", "/federated_credentials", "/reserved_domains", "/reserved_addrs"),
    *("/ssh_certificate_authorities", "/ssh_credentials", "/ssh_host_certificates", "/ssh_user_certificates"),
    *("/certificate_authorities", "/tls_certificates"),
)


def read_resources(client: Client) -> dict[str, Any]:
    """Return all lists of an account, as the API shows them, without client secrets."""
    return {path: json.loads(client.get(path).text.replace(worlds.SECRET, "")) for path in LISTS}


def move_away(client: Client, file: Path) -> None:
    """Export an account into a file, and delete it."""
    exporting.export_account(client.account, file, lambda _: None)
    deletion.Deletion(client.account, "delete", lambda _: None, sleep=lambda _: None).run()


def arrive(client: Client, name: str = "acme") -> Client:
    """Return a client of the admin of an account that was just created."""
    account, user, token = create_account(name, "first")
    return Client(client.transport, account=account.id, user=user.id).with_token(token)


def test_a_deleted_account_returns_with_its_ids_and_names(admin: Client, tmp_path: Path) -> None:
    id_by_path, file = worlds.fill(admin), tmp_path / "acme.ndjson"
    before, route = read_resources(admin), admin.get(id_by_path["oauth"]).json
    move_away(admin, file)
    new = arrive(admin)
    printed = run("accounts", "import", new.account, str(file))
    assert printed[0] == f"{file} was imported into {new.account}."
    report = "\n".join(printed[1:])
    assert all(
        id in report
        for id in (id_by_path["/api_keys"], id_by_path["/ssh_certificate_authorities"], id_by_path["/tls_certificates"])
    )
    assert "client secret of github in the module oauth of the route" in report
    assert "secret of the module webhook_verification of the route" in report
    after = read_resources(new)
    assert after == before
    oauth = route["oauth"]["provider"]["github"]
    shown_oauth = new.get(id_by_path["oauth"]).json["oauth"]["provider"]["github"]
    assert shown_oauth == {**oauth, "client_secret": ""}
    webhook = new.get(id_by_path["oauth"]).json["webhook_verification"]
    assert webhook == {**route["webhook_verification"], "secret": ""}
    assert worlds.find_naming(admin.account) == []
    authority = id_by_path["/ssh_certificate_authorities"]
    assert new.get(f"/ssh_certificate_authorities/{authority}/krl").status == 200
    answer = new.post("/ssh_user_certificates", {**_request(), "ssh_certificate_authority_id": authority})
    assert (answer.status, answer.json["error_code"]) == (409, "conflict")
    events = new.get("/audit_events?limit=100").json["audit_events"]
    assert {event["resource_id"] for event in events} >= {
        id_by_path["/backends/http_response"],
        id_by_path["/bot_users"],
    }
    again = str(expect_failure("accounts", "import", new.account, str(file)))
    assert again == f"This account was already imported into {new.account}, and can be imported only once."


@pytest.mark.parametrize(
    ("path", "body"), [("/reserved_domains", {"domain": "held.example.com"}), ("/reserved_addrs", {})]
)
def test_a_reservation_returns_with_its_restriction(
    admin: Client, tmp_path: Path, path: str, body: dict[str, str]
) -> None:
    policy = admin.create("/ip_policies", {})["id"]
    module = f"{path}/{admin.create(path, body)['id']}/ip_restriction"
    restriction = admin.put(module, {"ip_policy_ids": [policy]}).json
    file = tmp_path / "acme.ndjson"
    move_away(admin, file)
    assert admin.get(module).status in (401, 404)
    new = arrive(admin)
    run("accounts", "import", new.account, str(file))
    assert new.get(module).json == restriction


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ('"deny 192.0.2.9/32"', '"allow 192.0.2.9/32"'),  # in the policy
        ('"allow 192.0.2.0/24"', '"allow 0.0.0.0/0"'),
        ('{"S": "deny"}', '{"S": "allow"}'),  # in the rule
        ('{"S": "192.0.2.9"}', '{"S": "192.0.2.8"}'),
    ],
)
def test_an_ip_policy_that_does_not_match_its_rules_is_refused(
    admin: Client, tmp_path: Path, text: str, instead: str
) -> None:
    policy = admin.create("/ip_policies", {})["id"]
    for action, cidr in (("allow", "192.0.2.0/24"), ("deny", "192.0.2.9")):
        rule = admin.create("/ip_policy_rules", {"ip_policy_id": policy, "action": action, "cidr": cidr})
    before, file, edited = admin.get("/ip_policy_rules").json, tmp_path / "acme.ndjson", tmp_path / "edited.ndjson"
    move_away(admin, file)
    new, records = arrive(admin), worlds.scan()
    export_text = file.read_text()
    assert text in export_text
    edited.write_text(export_text.replace(text, instead))
    message = str(expect_failure("accounts", "import", new.account, str(edited)))
    assert f"The IP policy {policy} does not match its rule " in message
    assert message.endswith("Disable the account and export it again. Nothing was imported.")
    assert (worlds.scan(), rule["action"]) == (records, "deny")
    run("accounts", "import", new.account, str(file))
    assert new.get("/ip_policy_rules").json == before


def test_an_import_with_one_conflict_writes_nothing(admin: Client, stranger: Client, tmp_path: Path) -> None:
    id_by_path, file = worlds.fill(admin), tmp_path / "acme.ndjson"
    credential = admin.get(f"/ssh_credentials/{id_by_path['/ssh_credentials']}").json
    move_away(admin, file)
    stranger.create("/ssh_credentials", {"public_key": credential["public_key"]})
    new, before = arrive(admin), worlds.scan()
    message = str(expect_failure("accounts", "import", new.account, str(file)))
    assert message.startswith("Nothing was imported. There are 1 conflicts:\npublic_key#SHA256:")
    assert worlds.scan() == before


def test_an_account_that_is_there_or_not_new_is_a_conflict(admin: Client, stranger: Client, tmp_path: Path) -> None:
    file = tmp_path / "acme.ndjson"
    admin.create("/bot_users", {"name": "deployer"})
    exporting.export_account(admin.account, file, lambda _: None)
    new, before = arrive(admin), worlds.scan()
    message = str(expect_failure("accounts", "import", new.account, str(file)))
    assert f"The exported account {admin.account} still exists: delete it first." in message
    stranger.create("/backends/http_response", {})
    message = str(expect_failure("accounts", "import", stranger.account, str(file)))
    assert message == f"{stranger.account} is not new: it has /backends/http_response. Import into a new account."
    assert [record for record in worlds.scan() if record not in before and new.account in repr(record)] == []


def test_an_import_that_is_killed_ten_times_under_load_is_complete(
    admin: Client, stranger: Client, tmp_path: Path
) -> None:
    worlds.fill(admin)
    file = tmp_path / "acme.ndjson"
    before = read_resources(admin)
    move_away(admin, file)
    new = arrive(admin)
    importing = Import(new.account, file, lambda _: None)
    with busy.clients(stranger) as statuses, suppress(CommandError):  # a killed run had imported all
        killing.complete(importing.run, seed=3, limit=30)
    assert read_resources(new) == before
    assert {*statuses} == {200, 201, 204}


CHANGES = {
    "a cut file": lambda lines: lines[:-1],
    "a missing record": lambda lines: [line for line in lines if '"user_name#' not in line],
    "a record of another account": lambda lines: [lines[0], lines[1].replace("acct_", "acct_A", 1), *lines[2:]],
    "a record of the service": lambda lines: [
        lines[0],
        '{"class": "", "record": {"scope": {"S": "edge#/settings"}, "id": {"S": "names"}}}',
        *lines[1:],
    ],
    "a wrong type": lambda lines: [
        line.replace('"active": {"BOOL": true}', '"active": {"S": "yes"}') for line in lines
    ],
    "no JSON": lambda lines: [lines[0], "]", *lines[1:]],
    "nothing": lambda lines: [],
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_file_that_is_no_complete_export_is_refused(admin: Client, tmp_path: Path, change: Any) -> None:
    file = tmp_path / "acme.ndjson"
    admin.create("/bot_users", {"name": "deployer"})
    move_away(admin, file)
    lines = change(file.read_text().splitlines())
    count = len(lines) - 2
    if lines and '"records": ' in lines[-1]:
        lines[-1] = portable.end(count)
    file.write_text("\n".join(lines))
    new, before = arrive(admin), worlds.scan()
    message = str(expect_failure("accounts", "import", new.account, str(file)))
    assert message.startswith(f"{file}: ")
    assert message.endswith("Nothing was imported.")
    assert worlds.scan() == before


def _request() -> dict[str, Any]:
    return {"public_key": samples.public_key(), "principals": [ids.new("x")]}
