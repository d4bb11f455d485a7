"""What callers that are not admins may change: their own keys and credentials, and certificates that they requested."""

from collections.abc import Callable
from typing import Any

import pytest

from chalicelib import ids
from chalicelib.operator import keys, owners
from tests.refusals import assert_not_found, assert_refused
from tests.samples import public_key
from tests.transports import Client, key_in

AUTHORITIES, USERS, HOSTS = "/ssh_certificate_authorities", "/ssh_user_certificates", "/ssh_host_certificates"
OTHERS = "Only an admin may change what another user or bot owns."
REQUESTED = "Only an admin may delete certificates that others requested."
REVOKED = "Only an admin may revoke keys, serials and certificates of others, and delete such revocations."
AUTHORITY = "Only an admin may change or delete an SSH certificate authority."
SIGNER = "The policy of the authority does not name you as a signer: an admin can add your id to 'signers'."


@pytest.fixture
def authority(admin: Client) -> str:
    return str(admin.create(AUTHORITIES, {})["id"])


@pytest.fixture(params=["user", "bot", "scoped"])
def caller(request: pytest.FixtureRequest, admin: Client) -> Client:
    """Return a client that is not an admin: a user, a bot, and a user whose key has every scope but `*`."""
    owner = owners.add_owner(admin.account, "bot" if request.param == "bot" else "usr", "caller", admin=False)
    scopes = (
        (
            "api_keys:write",
            "ssh_credentials:write",
            "ssh_certificate_authorities:write",
            *(f"{path[1:]}:write" for path in (USERS, HOSTS)),
            "*:read",
        )
        if request.param == "scoped"
        else ()
    )
    _, token = keys.issue_key(admin.account, owner.id, "", scopes=scopes)
    return Client(admin.transport, token, account=admin.account, user=owner.id)


def build_request(authority: str, **fields: Any) -> dict[str, Any]:
    return {"ssh_certificate_authority_id": authority, "public_key": public_key(), **fields}


def requests(authority: str) -> dict[str, Callable[[], dict[str, Any]]]:
    """Return the body of a creation for each kind whose items have an owner."""
    return {
        "/api_keys": dict,
        "/ssh_credentials": lambda: {"public_key": public_key()},
        USERS: lambda: build_request(authority),
        HOSTS: lambda: build_request(authority),
    }


@pytest.mark.parametrize("path", ["/api_keys", "/ssh_credentials", USERS, HOSTS])
def test_callers_change_and_delete_only_what_is_theirs(
    admin: Client, caller: Client, authority: str, path: str
) -> None:
    body = requests(authority)[path]
    own_id, other = caller.create(path, body())["id"], admin.create(path, body())["id"]
    sees = caller.get(f"{path}/{other}").json
    assert sees == admin.get(f"{path}/{other}").json
    refusals = caller.patch(f"{path}/{other}", {"description": "x"}), caller.delete(f"{path}/{other}")
    if path in (USERS, HOSTS):
        assert refusals[0].status == 200
        assert_refused(refusals[1], 403, "forbidden", REQUESTED)
    else:
        for answer in refusals:
            assert_refused(answer, 403, "forbidden", OTHERS)
        assert caller.get(f"{path}/{other}").json == sees
    absent = ids.new(own_id.partition("_")[0])
    assert_not_found(caller.delete(f"{path}/{absent}"), path)
    assert caller.patch(f"{path}/{own_id}", {"description": "x"}).json["description"] == "x"
    assert caller.delete(f"{path}/{own_id}").status == 204
    assert admin.delete(f"{path}/{other}").status == 204


def test_permission_comes_before_conditions(admin: Client, member: Client) -> None:
    other = f"/api_keys/{admin.create('/api_keys', {})['id']}"
    assert_refused(member.send("PATCH", other, {}, If_Match='"1-x"'), 403, "forbidden", OTHERS)
    assert admin.send("PATCH", other, {}, If_Match='"1-x"').status == 412


def test_a_member_cannot_delete_the_only_key_of_an_admin(admin: Client, member: Client) -> None:
    assert_refused(member.delete(f"/api_keys/{key_in(admin.token)}"), 403, "forbidden", OTHERS)
    assert admin.get("/me").status == 200


def test_callers_change_no_authority_and_no_policy(admin: Client, caller: Client, authority: str) -> None:
    address = f"{AUTHORITIES}/{authority}"
    assert admin.put(f"{address}/policy", {}).status == 200
    for method, body in (("PATCH", {"description": "x"}), ("DELETE", None)):
        assert_refused(caller.send(method, address, body), 403, "forbidden", AUTHORITY)
    for method in ("GET", "PUT", "DELETE"):
        assert caller.send(method, f"{address}/policy", {} if method == "PUT" else None).status == 403
    assert caller.get(address).json == admin.get(address).json
    assert caller.post(AUTHORITIES, {}).status == 201
    assert admin.delete(address).status == 204


@pytest.mark.parametrize(("path", "field"), [(USERS, "ssh_user_certificate_id"), (HOSTS, "ssh_host_certificate_id")])
def test_callers_revoke_only_certificates_that_they_requested(
    admin: Client, caller: Client, authority: str, path: str, field: str
) -> None:
    revocations = f"{AUTHORITIES}/{authority}/revocations"
    own_id, other = (client.create(path, build_request(authority))["id"] for client in (caller, admin))
    revocation = caller.create(revocations, {field: own_id})["id"]
    rule = {field: "must be the id of a certificate that you requested"}
    assert_refused(caller.post(revocations, {field: other}), 403, "forbidden", REVOKED, rule)
    for name, value in (("serial", "7"), ("public_key", public_key())):
        rule = {name: "must be absent unless you are an admin: name a certificate that you requested"}
        assert_refused(caller.post(revocations, {name: value}), 403, "forbidden", REVOKED, rule)
    revocation_ids = [admin.create(revocations, body)["id"] for body in ({field: other}, {"serial": "7"})]
    for id in revocation_ids:
        assert_refused(caller.delete(f"{revocations}/{id}"), 403, "forbidden", REVOKED)
    assert_not_found(caller.delete(f"{revocations}/{ids.new('sshrv')}"), f"{AUTHORITIES}/{{id}}/revocations")
    assert caller.delete(f"{revocations}/{revocation}").status == 204
    assert [admin.delete(f"{revocations}/{id}").status for id in revocation_ids] == [204, 204]


def test_the_revocation_of_a_deleted_certificate_is_for_admins(admin: Client, member: Client, authority: str) -> None:
    certificate = member.create(USERS, build_request(authority))["id"]
    assert member.delete(f"{USERS}/{certificate}").status == 204
    (revocation,) = admin.get(f"{AUTHORITIES}/{authority}/revocations").json["revocations"]
    address = f"{AUTHORITIES}/{authority}/revocations/{revocation['id']}"
    assert_refused(member.delete(address), 403, "forbidden", REVOKED)
    assert admin.delete(address).status == 204


@pytest.mark.parametrize(("side", "path"), [("user", USERS), ("host", HOSTS)])
def test_only_named_signers_and_admins_sign(
    admin: Client, caller: Client, authority: str, side: str, path: str
) -> None:
    policy = f"{AUTHORITIES}/{authority}/policy"
    other = {"user": HOSTS, "host": USERS}[side]
    for signers, status in ((None, 201), ([caller.user], 201), ([], 403), ([admin.user], 403)):
        assert admin.put(policy, {side: {"signers": signers}}).json[side]["signers"] == signers
        answer = caller.post(path, build_request(authority))
        assert answer.status == status
        if status == 403:
            assert_refused(answer, 403, "forbidden", SIGNER)
        assert [
            client.post(uri, build_request(authority)).status for client, uri in ((admin, path), (caller, other))
        ] == [201, 201]
    assert admin.put(policy, {"enabled": False, side: {"signers": []}}).status == 200
    assert caller.post(path, build_request(authority)).status == 201


def test_signers_are_users_and_bots_and_wait_for_the_fourth_format(
    admin: Client, authority: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = f"{AUTHORITIES}/{authority}/policy"
    wrong = admin.put(policy, {"user": {"signers": [ids.new("ak")]}}).json["details"]
    assert wrong["user.signers.0"] == "must be the id of a user (usr_…) or bot (bot_…)"
    monkeypatch.setenv("RECORD_FORMAT", "3")
    assert admin.put(policy, {"user": {}, "host": {}}).status == 200
    wrong = admin.put(policy, {"user": {}, "host": {"signers": []}}).json["details"]
    assert wrong["host.signers"] == "must be null until the operator sets RECORD_FORMAT to 4"


def test_a_deployment_can_keep_the_old_rule(
    admin: Client, member: Client, authority: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMBERS_ACT_FOR_ALL", "true")
    revocations = f"{AUTHORITIES}/{authority}/revocations"
    revocation = member.create(revocations, {"serial": "7"})["id"]
    assert member.delete(f"{revocations}/{revocation}").status == 204
    for path, body in requests(authority).items():
        other = admin.create(path, body())["id"]
        assert member.patch(f"{path}/{other}", {"description": "x"}).status == 200
        assert member.delete(f"{path}/{other}").status == 204
    assert member.delete(f"{AUTHORITIES}/{authority}").status == 204
