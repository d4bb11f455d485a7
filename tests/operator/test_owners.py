"""Users and bots that the operator adds and deletes."""

import pytest

from chalicelib import ids
from tests.operator.commands import Output, bearer, create_account, expect_failure, run_without_errors
from tests.transports import Client, InProcess, key_in


def test_a_user_who_owns_a_key_is_not_deleted(admin: Client, member: Client, capsys: Output) -> None:
    key = key_in(member.token)
    sentence = f"The user {member.user} owns 1 keys and credentials, for example {key}: offboard the user."
    assert expect_failure("users", "delete", admin.account, member.user) == sentence
    assert member.get("/api_keys").status == 200
    run_without_errors(capsys, "keys", "revoke", admin.account, key)
    run_without_errors(capsys, "users", "delete", admin.account, member.user)
    assert admin.get(f"/users/{member.user}").status == 404


@pytest.mark.parametrize(("kind", "prefix"), [("users", "usr"), ("bots", "bot")])
def test_a_user_or_bot_gets_a_key_and_has_the_rights_it_was_given(
    transport: InProcess, capsys: Output, kind: str, prefix: str
) -> None:
    account, admin, _ = create_account(capsys)
    for rights, status in (((), 403), (("--admin",), 201)):
        (owner,) = run_without_errors(capsys, kind, "add", account, f"robot{status}", *rights)
        assert ids.is_id(owner, prefix)
        key, token = run_without_errors(capsys, "keys", "issue", account, owner, "--description", "ci")
        client = bearer(transport, token.removeprefix("token "))
        response = client.get(f"/api_keys/{key.removeprefix('key ')}").json
        assert (response["owner_id"], response["description"]) == (owner, "ci")
        assert client.post("/api_keys", {"owner_id": admin}).status == status
