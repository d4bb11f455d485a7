"""Offboarding as clients see it: what ends, what is kept, how often a call is repeated, and who may call."""

from typing import Any

import pytest

from chalicelib import clock, ids
from chalicelib.operator import keys, owners
from tests.model.offboarding.trees import AUTHORITIES, CERTIFICATES, KEYS, child, key_of, later, offboard, signing
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


def report(wait: int = 16, **ended: Any) -> dict[str, Any]:
    return {**DONE, "complete": False, "retry_after": wait, **ended}


def about(told: dict[str, Any], expected: dict[str, Any]) -> bool:
    """Return whether a report is as expected, except that a second or two may have passed."""
    waits = told["retry_after"], expected["retry_after"]
    return {**told, "retry_after": 0} == {**expected, "retry_after": 0} and 0 <= waits[1] - waits[0] <= 3


def assert_unknown(answer: Answer) -> None:
    assert_refused(answer, 401, "unauthenticated", UNKNOWN_TOKEN)


def revoked(admin: Client, authority: str) -> set[str]:
    listed = admin.get(f"{AUTHORITIES}/{authority}/revocations").json["revocations"]
    return {each["ssh_user_certificate_id"] for each in listed}


def test_a_key_ends_with_its_tree(
    admin: Client, authority: str, second: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = admin.create(BOTS, {"name": "bot"})["id"]
    root = child(second)
    made = child(root)
    bots = child(made, owner_id=bot)
    grandchild = child(bots)
    credential = made.create(CREDENTIALS, {"public_key": public_key()})["id"]
    signed = {client.create(CERTIFICATES, signing(authority))["id"] for client in (root, made, bots, grandchild)}
    host = grandchild.create(HOSTS, signing(authority))["id"]
    others = child(second)
    kept = others.create(CERTIFICATES, signing(authority))["id"]

    first = offboard(admin, f"{KEYS}/{key_of(root)}")
    on_host = [{"id": host, "owner_id": bot}]
    assert about(first, report(keys=3, ssh_credentials=1, certificates=4, kept=on_host)), first
    for client in (root, made, bots, grandchild):
        assert_unknown(client.get("/me"))
    assert revoked(admin, authority) == signed
    assert admin.get(f"{CERTIFICATES}/{min(signed)}").status == 200
    assert_not_found(admin.get(f"{CREDENTIALS}/{credential}"), CREDENTIALS)
    assert others.get("/me").status == second.get("/me").status == 200
    assert admin.get(f"{KEYS}/{key_of(root)}").status == 200  # until it is complete

    again = offboard(admin, f"{KEYS}/{key_of(root)}")
    assert about(again, report(kept=on_host)), again
    later(monkeypatch)
    assert offboard(admin, f"{KEYS}/{key_of(root)}") == {**DONE, "keys": 1, "kept": on_host}
    assert_not_found(admin.post(f"{KEYS}/{key_of(root)}/offboard", {}), KEYS)
    assert others.get("/me").status == 200
    assert revoked(admin, authority) == signed
    assert kept not in signed


def test_each_end_is_an_event_of_the_caller(admin: Client, authority: str) -> None:
    root = child(admin)
    made = child(root)
    certificate = made.create(CERTIFICATES, signing(authority))["id"]
    credential = made.create(CREDENTIALS, {"public_key": public_key()})["id"]
    offboard(admin, f"{KEYS}/{key_of(root)}")
    events = admin.get(f"/audit_events?actor_id={key_of(admin)}&limit=4").json["audit_events"]
    revocation = admin.get(f"{AUTHORITIES}/{authority}/revocations").json["revocations"][0]
    assert revocation["ssh_user_certificate_id"] == certificate
    assert [(event["action"], event["resource_id"]) for event in events[::-1]] == [
        ("api_key.update", key_of(root)),
        ("ssh_revocation.create", revocation["id"]),
        ("ssh_credential.delete", credential),
        ("api_key.delete", key_of(made)),
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
    theirs = second.with_token(admin.create(KEYS, {"owner_id": second.user})["token"])
    gone = child(second)
    signed = {client.create(CERTIFICATES, signing(authority))["id"] for client in (second, theirs, gone)}
    assert admin.delete(f"{KEYS}/{key_of(gone)}").status == 204
    fields = {"issuer": GITHUB, "claims": {"repository_id": "1"}, "scopes": ["edges:write"]}
    federated = admin.create(FEDERATED, {**fields, "owner_id": second.user})["id"]
    of_bot = second.create(FEDERATED, {**fields, "owner_id": bot})["id"]

    ended = {"keys": 2, "ssh_credentials": 1, "certificates": 3, "federated_credentials": 1}
    kept = [{"id": key_of(bots), "owner_id": bot}, {"id": of_bot, "owner_id": bot}]
    first = offboard(admin, path)
    assert about(first, report(**ended, kept=kept)), first
    assert admin.get(path).json["active"] is False
    for client in (second, theirs):
        assert_unknown(client.get("/me"))
    assert revoked(admin, authority) == signed
    assert_not_found(admin.get(f"{CREDENTIALS}/{by_others}"), CREDENTIALS)
    assert [admin.get(f"{FEDERATED}/{id}").json["enabled"] for id in (federated, of_bot)] == [False, True]
    assert bots.get("/me").status == 200
    later(monkeypatch)
    assert offboard(admin, path) == offboard(admin, path) == {**DONE, "kept": kept}
    assert offboard(admin, path, others="end")["keys"] == 1
    assert_unknown(bots.get("/me"))
    assert admin.get(f"{FEDERATED}/{of_bot}").json["enabled"] is False


def test_certificates_can_be_kept(admin: Client, authority: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root = child(admin)
    signed = root.create(CERTIFICATES, signing(authority))["id"]
    ended = root.create(CERTIFICATES, signing(authority, valid_until=clock.rfc3339(clock.at(clock.seconds() + 1))))
    later(monkeypatch, 2)
    kept = [{"id": signed, "owner_id": admin.user}]
    assert offboard(admin, f"{KEYS}/{key_of(root)}", certificates="keep")["kept"] == kept
    later(monkeypatch)
    done = offboard(admin, f"{KEYS}/{key_of(root)}", certificates="keep")
    assert done == {**DONE, "keys": 1, "kept": kept}
    assert revoked(admin, authority) == set()
    assert ended["id"] not in [each["id"] for each in done["kept"]]


def test_a_federated_credential_ends_with_the_keys_that_name_it(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"issuer": GITHUB, "claims": {"repository_id": "1"}, "scopes": ["edges:write"], "owner_id": admin.user}
    path = f"{FEDERATED}/{admin.create(FEDERATED, fields)['id']}"
    first = offboard(admin, path)
    assert about(first, report()), first
    assert admin.get(path).json["enabled"] is False
    later(monkeypatch)
    assert offboard(admin, path) == DONE
    assert admin.patch(path, {"enabled": True}).json["enabled"] is True
    assert offboard(admin, path)["complete"] is False  # it is closed anew
    assert admin.get(path).json["enabled"] is False


def test_a_user_who_is_enabled_again_is_closed_again(
    admin: Client, member: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{USERS}/{member.user}"
    offboard(admin, path)
    later(monkeypatch)
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
    made = child(root)
    assert offboard(member, f"{KEYS}/{key_of(root)}")["keys"] == 1
    assert_unknown(made.get("/me"))
