"""Offboarding as clients see it: what ends, what is kept, how often a call is repeated, and who may call."""

from typing import Any

import pytest

from chalicelib import clock, ids
from chalicelib.operator import keys, owners
from tests.model.offboarding.trees import (
    AUTHORITIES,
    CERTIFICATES,
    KEYS,
    advance_clock,
    build_request,
    child,
    key_of,
    offboard,
)
from tests.refusals import UNKNOWN_TOKEN, assert_not_found, assert_refused
from tests.samples import public_key
from tests.transports import Answer, Client

CREDENTIALS, USERS, BOTS = "/ssh_credentials", "/users", "/bot_users"
HOSTS, FEDERATED = "/ssh_host_certificates", "/federated_credentials"
GITHUB = "https://token.actions.githubusercontent.com"
LAST = "This is the account's last active admin. Only the operator can switch it off."
INACTIVE = "The user that owns the API key is inactive or was deleted."
NONE = {"keys": 0, "ssh_credentials": 0, "certificates": 0, "federated_credentials": 0}
DONE = {"complete": True, "retry_after": 0, **NONE, "kept": [], "kept_more": 0}


@pytest.fixture
def authority(admin: Client) -> str:
    return str(admin.create(AUTHORITIES, {})["id"])


@pytest.fixture
def second(admin: Client) -> Client:
    """Return a client for another admin of the account."""
    owner = owners.add_owner(admin.account, "usr", ids.new("name"), admin=True)
    token = keys.issue_key(admin.account, owner.id, "")[1]
    return Client(admin.transport, token, account=admin.account, user=owner.id)


def report(wait: int = 16, **counts: Any) -> dict[str, Any]:
    return {**DONE, "complete": False, "retry_after": wait, **counts}


def about(actual: dict[str, Any], expected: dict[str, Any]) -> bool:
    """Return whether a report is as expected, except that a second or two may have passed."""
    waits = actual["retry_after"], expected["retry_after"]
    return {**actual, "retry_after": 0} == {**expected, "retry_after": 0} and 0 <= waits[1] - waits[0] <= 3


def assert_unknown(answer: Answer) -> None:
    assert_refused(answer, 401, "unauthenticated", UNKNOWN_TOKEN)


def list_revoked(admin: Client, authority: str) -> set[str]:
    revocations = admin.get(f"{AUTHORITIES}/{authority}/revocations").json["revocations"]
    return {revocation["ssh_user_certificate_id"] for revocation in revocations}


def test_a_key_ends_with_its_tree(
    admin: Client, authority: str, second: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = admin.create(BOTS, {"name": "bot"})["id"]
    root = child(second)
    child_client = child(root)
    bots = child(child_client, owner_id=bot)
    grandchild = child(bots)
    credential = child_client.create(CREDENTIALS, {"public_key": public_key()})["id"]
    certificate_ids = {
        client.create(CERTIFICATES, build_request(authority))["id"] for client in (root, child_client, bots, grandchild)
    }
    host = grandchild.create(HOSTS, build_request(authority))["id"]
    other_client = child(second)
    other_certificate = other_client.create(CERTIFICATES, build_request(authority))["id"]

    first = offboard(admin, f"{KEYS}/{key_of(root)}")
    on_host = [{"id": host, "owner_id": bot}]
    assert about(first, report(keys=3, ssh_credentials=1, certificates=4, kept=on_host)), first
    for client in (root, child_client, bots, grandchild):
        assert_unknown(client.get("/me"))
    assert list_revoked(admin, authority) == certificate_ids
    assert admin.get(f"{CERTIFICATES}/{min(certificate_ids)}").status == 200
    assert_not_found(admin.get(f"{CREDENTIALS}/{credential}"), CREDENTIALS)
    assert other_client.get("/me").status == second.get("/me").status == 200
    assert admin.get(f"{KEYS}/{key_of(root)}").status == 200  # until it is complete

    again = offboard(admin, f"{KEYS}/{key_of(root)}")
    assert about(again, report(kept=on_host)), again
    advance_clock(monkeypatch)
    assert offboard(admin, f"{KEYS}/{key_of(root)}") == {**DONE, "keys": 1, "kept": on_host}
    assert_not_found(admin.post(f"{KEYS}/{key_of(root)}/offboard", {}), KEYS)
    assert other_client.get("/me").status == 200
    assert list_revoked(admin, authority) == certificate_ids
    assert other_certificate not in certificate_ids


def test_each_end_is_an_event_of_the_caller(admin: Client, authority: str) -> None:
    root = child(admin)
    child_client = child(root)
    certificate = child_client.create(CERTIFICATES, build_request(authority))["id"]
    credential = child_client.create(CREDENTIALS, {"public_key": public_key()})["id"]
    offboard(admin, f"{KEYS}/{key_of(root)}")
    events = admin.get(f"/audit_events?actor_id={key_of(admin)}&limit=4").json["audit_events"]
    revocation = admin.get(f"{AUTHORITIES}/{authority}/revocations").json["revocations"][0]
    assert revocation["ssh_user_certificate_id"] == certificate
    assert [(event["action"], event["resource_id"]) for event in events[::-1]] == [
        ("api_key.update", key_of(root)),
        ("ssh_revocation.create", revocation["id"]),
        ("ssh_credential.delete", credential),
        ("api_key.delete", key_of(child_client)),
    ]
    assert events[-1]["details"] == {"before": {}, "after": {"offboarded": "true"}}
    assert {event["actor"]["owner_id"] for event in events} == {admin.user}
    assert len({event["operation_id"] for event in events}) == 1


def test_a_user_ends_with_everything_that_is_theirs(
    admin: Client, authority: str, second: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, bot = f"{USERS}/{second.user}", admin.create(BOTS, {"name": "bot"})["id"]
    bots = child(second, owner_id=bot)
    by_others = admin.create(CREDENTIALS, {"public_key": public_key(), "owner_id": second.user})["id"]
    other_client = second.with_token(admin.create(KEYS, {"owner_id": second.user})["token"])
    child_client = child(second)
    certificate_ids = {
        client.create(CERTIFICATES, build_request(authority))["id"] for client in (second, other_client, child_client)
    }
    assert admin.delete(f"{KEYS}/{key_of(child_client)}").status == 204
    fields = {"issuer": GITHUB, "claims": {"repository_id": "1"}, "scopes": ["edges:write"]}
    federated = admin.create(FEDERATED, {**fields, "owner_id": second.user})["id"]
    of_bot = second.create(FEDERATED, {**fields, "owner_id": bot})["id"]

    counts = {"keys": 2, "ssh_credentials": 1, "certificates": 3, "federated_credentials": 1}
    remaining_keys = [{"id": key_of(bots), "owner_id": bot}, {"id": of_bot, "owner_id": bot}]
    first = offboard(admin, path)
    assert about(first, report(**counts, kept=remaining_keys)), first
    assert admin.get(path).json["active"] is False
    for client in (second, other_client):
        assert_unknown(client.get("/me"))
    assert list_revoked(admin, authority) == certificate_ids
    assert_not_found(admin.get(f"{CREDENTIALS}/{by_others}"), CREDENTIALS)
    assert [admin.get(f"{FEDERATED}/{id}").json["enabled"] for id in (federated, of_bot)] == [False, True]
    assert bots.get("/me").status == 200
    advance_clock(monkeypatch)
    assert offboard(admin, path) == offboard(admin, path) == {**DONE, "kept": remaining_keys}
    assert offboard(admin, path, others="end")["keys"] == 1
    assert_unknown(bots.get("/me"))
    assert admin.get(f"{FEDERATED}/{of_bot}").json["enabled"] is False


def test_certificates_can_be_kept(admin: Client, authority: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root = child(admin)
    certificate_id = root.create(CERTIFICATES, build_request(authority))["id"]
    short_certificate = root.create(
        CERTIFICATES, build_request(authority, valid_until=clock.rfc3339(clock.at(clock.seconds() + 1)))
    )
    advance_clock(monkeypatch, 2)
    remaining_certificates = [{"id": certificate_id, "owner_id": admin.user}]
    assert offboard(admin, f"{KEYS}/{key_of(root)}", certificates="keep")["kept"] == remaining_certificates
    advance_clock(monkeypatch)
    outcome = offboard(admin, f"{KEYS}/{key_of(root)}", certificates="keep")
    assert outcome == {**DONE, "keys": 1, "kept": remaining_certificates}
    assert list_revoked(admin, authority) == set()
    assert short_certificate["id"] not in [entry["id"] for entry in outcome["kept"]]


def test_a_federated_credential_ends_with_the_keys_that_name_it(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"issuer": GITHUB, "claims": {"repository_id": "1"}, "scopes": ["edges:write"], "owner_id": admin.user}
    path = f"{FEDERATED}/{admin.create(FEDERATED, fields)['id']}"
    first = offboard(admin, path)
    assert about(first, report()), first
    assert admin.get(path).json["enabled"] is False
    advance_clock(monkeypatch)
    assert offboard(admin, path) == DONE
    assert admin.patch(path, {"enabled": True}).json["enabled"] is True
    assert offboard(admin, path)["complete"] is False  # it is closed anew
    assert admin.get(path).json["enabled"] is False


def test_a_user_who_is_enabled_again_is_closed_again(
    admin: Client, member: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{USERS}/{member.user}"
    offboard(admin, path)
    advance_clock(monkeypatch)
    assert offboard(admin, path)["complete"] is True
    assert admin.patch(path, {"active": True}).json["active"] is True
    assert admin.patch(path, {"active": False}).json["active"] is False
    assert about(offboard(admin, path), report())


def test_the_last_active_admin_is_never_closed(admin: Client, second: Client) -> None:
    offboard(admin, f"{USERS}/{second.user}")
    assert_refused(admin.post(f"{USERS}/{admin.user}/offboard", {}), 409, "conflict", LAST)
    assert admin.get("/me").status == 200


def test_who_may_offboard(admin: Client, member: Client, stranger: Client) -> None:
    bot = admin.create(BOTS, {"name": "bot"})["id"]
    fields = {"issuer": GITHUB, "claims": {"repository_id": "1"}, "scopes": ["edges:write"], "owner_id": admin.user}
    federated = admin.create(FEDERATED, fields)["id"]
    sentence = "Only an admin may offboard the key of another user or bot."
    assert_refused(member.post(f"{KEYS}/{key_of(admin)}/offboard", {}), 403, "forbidden", sentence)
    assert_not_found(member.post(f"{KEYS}/{ids.new('ak')}/offboard", {}), KEYS)
    assert_not_found(stranger.post(f"{KEYS}/{key_of(member)}/offboard", {}), KEYS)
    for path in (f"{BOTS}/{bot}", f"{FEDERATED}/{federated}", f"{USERS}/{member.user}"):
        sentence = "Only an admin may offboard users, bots and federated credentials."
        assert_refused(member.post(f"{path}/offboard", {}), 403, "forbidden", sentence)
        collection = path.split("/")[1]
        reader = child(admin, scopes=["*:read", f"{collection}:create"])
        lacking = f"This API key lacks the scope {collection}:write."
        assert_refused(reader.post(f"{path}/offboard", {}), 403, "forbidden", lacking)
        assert_not_found(stranger.post(f"{path}/offboard", {}), f"/{collection}")
        writer = child(admin, scopes=[f"{collection}:write"])
        assert writer.post(f"{path}/offboard", {}).status == 200


def test_an_owner_offboards_a_key_that_is_not_used_any_more(admin: Client, member: Client) -> None:
    root = child(member)
    child_client = child(root)
    assert offboard(member, f"{KEYS}/{key_of(root)}")["keys"] == 1
    assert_unknown(child_client.get("/me"))
