"""`users forget`: a person's name is in no record and no audit event any more."""

from contextlib import suppress

from chalicelib.operator import keys, owners
from chalicelib.operator.command_line import UnknownId
from chalicelib.operator.tenants import forgetting
from tests import samples
from tests.operator.commands import Output, expect_failure, run_without_errors
from tests.operator.tenants import killing, worlds
from tests.transports import Client

NAME = "ada@example.com"


def act(admin: Client) -> str:
    """Add a user who makes resources with the name in their events. Return the id."""
    user = owners.add_owner(admin.account, "usr", NAME, admin=False).id
    _, token = keys.issue_key(admin.account, user, "")
    client = admin.with_token(token)
    client.create("/backends/http_response", {})
    authority = admin.create("/ssh_certificate_authorities", {})["id"]
    request = {"ssh_certificate_authority_id": authority, "public_key": samples.public_key(), "principals": ["root"]}
    client.create("/ssh_user_certificates", request)
    return user


def test_the_name_is_replaced_in_records_and_events(admin: Client, stranger: Client, capsys: Output) -> None:
    user = act(admin)
    owners.add_owner(stranger.account, "usr", NAME, admin=False)
    stranger_keys = worlds.find_naming(stranger.account)
    printed = run_without_errors(capsys, "users", "forget", admin.account, NAME, "--reason", "a request")
    assert printed[0].startswith(f"The name is replaced by {user}, also in ")
    assert [key for key in worlds.find_naming(NAME) if key not in stranger_keys] == []
    assert admin.get(f"/users/{user}").json["name"] == user
    events = admin.get(f"/audit_events?actor_id={user}").json["audit_events"]
    assert {event["actor"]["name"] for event in events} == {user}
    assert owners.add_owner(admin.account, "usr", NAME, admin=False).id != user


def test_a_deleted_user_is_found_by_events(admin: Client) -> None:
    user = owners.add_owner(admin.account, "usr", NAME, admin=False).id
    owners.delete_user(admin.account, user)
    assert forgetting.forget_user(admin.account, NAME) == (user, 2)
    assert worlds.find_naming(NAME) == []


def test_a_killed_command_completes(admin: Client) -> None:
    act(admin)
    with suppress(UnknownId):  # a killed run had replaced all
        killing.complete(lambda: forgetting.forget_user(admin.account, NAME), seed=4, limit=25)
    assert worlds.find_naming(NAME) == []


def test_bots_and_unknown_names_are_refused(admin: Client) -> None:
    bot = admin.create("/bot_users", {"name": "deployer"})["id"]
    message = expect_failure("users", "forget", admin.account, "deployer")
    assert message == f"deployer is the name of {bot}, which is not a user."
    message = expect_failure("users", "forget", admin.account, NAME)
    assert message == f"The account {admin.account} has no user {NAME}, not even in its audit events."
