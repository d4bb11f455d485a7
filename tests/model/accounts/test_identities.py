"""People who sign in: users by a claim, bound to issuer and subject at the first sign-in, and created if asked."""

from collections.abc import Iterator
from typing import Any

import pytest

from chalicelib.operator import owners
from tests.federation import exchanges
from tests.federation.exchanges import Issuer, assert_refused, exchange
from tests.refusals import assert_refused as assert_refusal
from tests.transports import Answer, Client


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Issuer]:
    with exchanges.serve_allowed_issuer(monkeypatch) as issuer:
        yield issuer


def people(admin: Client, issuer: Issuer, **more: Any) -> str:
    fields = {"owner_claim": "email", "provision": True, **more}
    return str(issuer.credential(admin, **fields)["id"])


def sign_in(admin: Client, issuer: Issuer, credential: str, email: str, sub: str = "1", **claims: Any) -> Answer:
    all_claims = {"email": email, "email_verified": True, "sub": sub, **claims}
    return exchange(admin, issuer.token(credential, **all_claims), credential)


def reason(admin: Client, credential: str) -> str:
    return str(admin.get(f"/federated_credentials/{credential}/usage").json["last_refusal"]["reason"])


def users(admin: Client) -> dict[str, str]:
    return {user["name"]: user["role"] for user in admin.get("/users").json["users"]}


def test_the_first_sign_in_creates_a_member(admin: Client, issuer: Issuer) -> None:
    credential = people(admin, issuer)
    first, second = (sign_in(admin, issuer, credential, "ada@example.com") for _ in range(2))
    owner = first.json["owner"]
    assert (first.status, second.json["owner"], owner["name"]) == (200, owner, "ada@example.com")
    assert users(admin) == {"admin": "admin", "ada@example.com": "member"}
    events = admin.get(f"/audit_events?resource_id={owner['id']}").json["audit_events"]
    (event,) = events
    actor = {"type": "federated", "key_id": credential, "owner_id": owner["id"], "name": "ada@example.com"}
    assert (event["action"], event["actor"], event["details"]["subject"]) == ("user.create", actor, "1")


def test_a_name_belongs_to_the_first_subject(admin: Client, issuer: Issuer) -> None:
    credential = people(admin, issuer)
    owner = sign_in(admin, issuer, credential, "ada@example.com").json["owner"]
    assert_refused(sign_in(admin, issuer, credential, "ada@example.com", "2"))
    assert reason(admin, credential) == "identity"
    # the bound user stays the same under another address
    assert sign_in(admin, issuer, credential, "ada@other.example").json["owner"] == owner
    assert len(users(admin)) == 2


def test_an_existing_member_is_bound(admin: Client, issuer: Issuer) -> None:
    user = admin.create("/users", {"name": "ada@example.com"})["id"]
    credential = people(admin, issuer, provision=False)
    assert sign_in(admin, issuer, credential, "ada@example.com").json["owner"]["id"] == user
    assert_refused(sign_in(admin, issuer, credential, "ada@example.com", "2"))
    identity = f"/users/{user}/identity"
    assert (admin.delete(identity).status, admin.delete(identity).status) == (204, 404)
    assert sign_in(admin, issuer, credential, "ada@example.com", "2").json["owner"]["id"] == user
    assert admin.get("/audit_events?action=user.identity.delete").json["audit_events"][0]["resource_id"] == user
    assert admin.delete(f"/users/{admin.user}/identity").status == 404


def test_only_admins_remove_a_binding(admin: Client, member: Client) -> None:
    answer = member.delete(f"/users/{member.user}/identity")
    assert_refusal(answer, 403, "forbidden", "Only an admin may create and delete users.")


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({"email_verified": False}, "owner"),
        ({"email_verified": "true"}, "owner"),
        ({"email_verified": None}, "owner"),
        ({"email": "=cmd@example.com"}, "owner"),
        ({"email": "a\u202eb@example.com"}, "owner"),
        ({"email": "a" * 256}, "owner"),
        ({"email": "a" * 9000}, "owner"),
        ({"email": "deploy"}, "owner"),  # the name of a bot
    ],
)
def test_who_cannot_be_a_user_is_refused(admin: Client, issuer: Issuer, claims: dict[str, Any], expected: str) -> None:
    admin.create("/bot_users", {"name": "deploy"})
    credential = people(admin, issuer)
    assert_refused(sign_in(admin, issuer, credential, **{"email": "ada@example.com", **claims}))
    assert reason(admin, credential) == expected
    assert users(admin) == {"admin": "admin"}


def test_a_missing_user_is_created_only_if_asked(admin: Client, issuer: Issuer) -> None:
    credential = people(admin, issuer, provision=False)
    assert_refused(sign_in(admin, issuer, credential, "ada@example.com"))
    assert reason(admin, credential) == "owner"


def test_an_admin_is_bound_by_a_verified_email_only(admin: Client, issuer: Issuer) -> None:
    owners.add_owner(admin.account, "usr", "root@example.com", admin=True)
    by_login = people(admin, issuer, owner_claim="login", provision=False)
    assert_refused(sign_in(admin, issuer, by_login, "x@example.com", login="root@example.com"))
    assert reason(admin, by_login) == "identity"
    by_email = people(admin, issuer, provision=False)
    key = sign_in(admin, issuer, by_email, "root@example.com").json
    assert key["owner"]["name"] == "root@example.com"


def test_an_inactive_user_stays_inactive(admin: Client, issuer: Issuer) -> None:
    credential = people(admin, issuer)
    user = sign_in(admin, issuer, credential, "ada@example.com").json["owner"]["id"]
    idle = admin.create("/users", {"name": "eve@example.com"})["id"]
    for id in (user, idle):
        assert admin.patch(f"/users/{id}", {"active": False}).status == 200
    for email, sub in (("ada@example.com", "1"), ("eve@example.com", "2")):
        assert_refused(sign_in(admin, issuer, credential, email, sub))
        assert admin.get(f"/users/{idle}").json["active"] is False
    assert reason(admin, credential) == "owner_inactive"
    admin.patch(f"/users/{user}", {"active": True})
    assert sign_in(admin, issuer, credential, "ada@example.com").status == 200


def test_an_account_has_at_most_1000_users(admin: Client, issuer: Issuer) -> None:
    for number in range(998):
        owners.add_owner(admin.account, "usr", f"user {number}", admin=False)
    credential = people(admin, issuer)
    assert sign_in(admin, issuer, credential, "ada@example.com").status == 200
    assert_refused(sign_in(admin, issuer, credential, "eve@example.com", "2"))
    assert reason(admin, credential) == "owner"


def test_a_deleted_user_is_bound_no_more(admin: Client, issuer: Issuer) -> None:
    credential = people(admin, issuer)
    key = sign_in(admin, issuer, credential, "ada@example.com").json
    assert admin.delete(f"/api_keys/{key['id']}").status == 204
    assert admin.delete(f"/users/{key['owner']['id']}").status == 204
    assert sign_in(admin, issuer, credential, "ada@example.com", "2").json["owner"]["id"] != key["owner"]["id"]
