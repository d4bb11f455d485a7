"""Federated credentials by their own rules: their fields, who may see and change them, and their number."""

from typing import Any

import pytest

from tests.refusals import assert_invalid, assert_not_found, assert_refused
from tests.transports import Client

PATH = "/federated_credentials"
GITHUB = "https://token.actions.githubusercontent.com"
FIELDS = {"issuer": GITHUB, "claims": {"repository_id": "512345678"}, "scopes": ["edges:write"]}


def fields(admin: Client, **more: Any) -> dict[str, Any]:
    return {**FIELDS, "owner_id": admin.user, **more}


def test_a_credential_has_all_fields_and_their_defaults(admin: Client) -> None:
    credential = admin.create(PATH, fields(admin))
    assert credential == {
        "id": credential["id"],
        "uri": credential["uri"],
        "created_at": credential["created_at"],
        "created_by": f"ak_{admin.token[3:30]}",
        "description": "",
        "metadata": "",
        "issuer": GITHUB,
        "audiences": [credential["id"]],
        "claims": {"repository_id": "512345678"},
        "owner_id": admin.user,
        "owner_claim": "",
        "provision": False,
        "scopes": ["edges:write"],
        "max_lifetime": 900,
        "single_use": False,
        "enabled": True,
        "sign_in": None,
    }
    path = f"{PATH}/{credential['id']}"
    assert admin.get(path).json == credential
    assert admin.get(PATH).json["federated_credentials"] == [credential]
    assert admin.delete(path).status == 204
    assert_not_found(admin.get(path), PATH)


def test_null_is_the_default_of_a_new_credential(admin: Client) -> None:
    optional = ("audiences", "owner_claim", "provision", "max_lifetime", "single_use", "enabled", "sign_in")
    credential = admin.create(PATH, fields(admin, **dict.fromkeys(optional)))
    plain = admin.create(PATH, fields(admin))
    assert {name: credential[name] for name in optional[1:]} == {name: plain[name] for name in optional[1:]}
    assert credential["audiences"] == [credential["id"]]


def test_a_change_sets_only_what_it_names(admin: Client) -> None:
    credential = admin.create(PATH, fields(admin, audiences=["app"]))
    path = f"{PATH}/{credential['id']}"
    sets = {
        "audiences": ["app", "other"],
        "claims": {"repository_owner_id": ["1", "2"], "ref": "refs/tags/*"},
        "scopes": ["backends:read", "edges:read"],
        "max_lifetime": 60,
        "single_use": True,
        "enabled": False,
        "sign_in": {"client_id": "app", "client_secret": "", "scopes": ["openid", "email"]},
    }
    answer = admin.patch(path, {**sets, "sign_in": {"client_id": "app"}})
    assert (answer.status, answer.json) == (200, {**credential, **sets})
    assert admin.patch(path, dict.fromkeys((*sets, "provision"))).json == {**credential, **sets}
    assert admin.patch(path, {"sign_in": {}}).json == {**credential, **sets, "sign_in": None}
    field_names = (
        "description, metadata, audiences, claims, provision, scopes, max_lifetime, single_use, enabled, sign_in"
    )
    for name in ("issuer", "owner_id", "owner_claim"):
        assert_invalid(
            admin.patch(path, {name: credential[name]}), {name: f"is not accepted here; accepted: {field_names}"}
        )


TENANT = "must contain repository_id or repository_owner_id, with patterns that do not contain '*'"
OWNER = "must be set if owner_claim is absent, and must be absent if owner_claim is set"
PATTERN = "must be a pattern of 1 to 512 bytes, or a list of 1 to 20 patterns"


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ({"owner_id": ""}, {"owner_id": OWNER}),
        ({"owner_claim": "email"}, {"owner_id": OWNER}),
        ({"provision": True}, {"provision": "must be false unless owner_claim is set"}),
        ({"claims": {"ref": "refs/heads/main"}}, {"claims": TENANT}),
        ({"claims": {"repository_id": "*"}}, {"claims": TENANT}),
        ({"claims": {"repository_id": ["1", "2*"]}}, {"claims": TENANT}),
        ({"claims": {"repository_id": []}}, {"claims.repository_id": PATTERN}),
        ({"claims": {"repository_id": 512345678}}, {"claims.repository_id": PATTERN}),
        ({"claims": {"repository_id": "1" * 513}}, {"claims.repository_id": PATTERN}),
        ({"claims": {"repository_id": "1", "": "x"}}, {"claims": "must have claim names of 1 to 64 bytes"}),
        ({"sign_in": {"client_id": "app"}}, {"sign_in.client_id": "must be one of the values of 'audiences'"}),
        ({"sign_in": {"client_id": "app", "scopes": ["email"]}}, {"sign_in.scopes": "must contain openid"}),
        ({"audiences": [""]}, {"audiences.0": "must not be empty"}),
        (
            {"issuer": "http://token.actions.githubusercontent.com"},
            {"issuer": "must be an https:// URL without a query, a fragment, user info or the port 443"},
        ),
    ],
)
def test_fields_that_break_a_rule_are_named(admin: Client, more: dict[str, Any], wrong: dict[str, str]) -> None:
    assert_invalid(admin.post(PATH, fields(admin, **more)), wrong)


@pytest.mark.parametrize(
    "more", [{"audiences": []}, {"scopes": []}, {"claims": {}}, {"max_lifetime": 59}, {"max_lifetime": 43201}]
)
def test_values_beyond_a_bound_are_rejected(admin: Client, more: dict[str, Any]) -> None:
    answer = admin.post(PATH, fields(admin, **more))
    assert (answer.status, [*answer.json["details"]]) == (400, [*more, "operation_id"])
    credential = admin.create(PATH, fields(admin))
    answer = admin.patch(f"{PATH}/{credential['id']}", more)
    assert (answer.status, [*answer.json["details"]]) == (400, [*more, "operation_id"])


def test_a_change_cannot_remove_what_the_issuer_or_the_sign_in_requires(admin: Client) -> None:
    credential = admin.create(PATH, fields(admin, audiences=["app"], sign_in={"client_id": "app"}))
    path = f"{PATH}/{credential['id']}"
    assert_invalid(admin.patch(path, {"claims": {"ref": "refs/heads/main"}}), {"claims": TENANT})
    assert_invalid(
        admin.patch(path, {"audiences": ["b"]}), {"sign_in.client_id": "must be one of the values of 'audiences'"}
    )
    assert_invalid(admin.patch(path, {"provision": True}), {"provision": "must be false unless owner_claim is set"})
    assert admin.get(path).json == credential


def test_another_issuer_than_those_of_the_operator_is_rejected(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OIDC_ISSUERS", "https://id.example.com https://*.example.net=")
    rule = "must match one of https://id.example.com, https://*.example.net"
    assert_invalid(admin.post(PATH, fields(admin)), {"issuer": rule})
    issuer = "https://id.example.com"
    rule = "must contain sub, with patterns that do not contain '*'"
    assert_invalid(admin.post(PATH, fields(admin, issuer=issuer)), {"claims": rule})
    assert admin.create(PATH, fields(admin, issuer=issuer, claims={"sub": "me"}))["issuer"] == issuer


def test_an_owner_is_a_user_or_bot_of_the_account(admin: Client, stranger: Client) -> None:
    bot = admin.create("/bot_users", {"name": "deployer"})["id"]
    assert admin.create(PATH, fields(admin, owner_id=bot))["owner_id"] == bot
    rule = {"owner_id": "must be the id of a user or bot of this account"}
    answer = admin.post(PATH, fields(admin, owner_id=stranger.user))
    assert_refused(answer, 400, "unknown_reference", "'owner_id' names no user or bot of this account.", rule)


def test_only_admins_may_see_and_only_the_scope_for_all_may_change(admin: Client) -> None:
    credential = admin.create(PATH, fields(admin))
    path = f"{PATH}/{credential['id']}"
    bot = admin.create("/bot_users", {"name": "deployer"})["id"]
    member = admin.with_token(admin.create("/api_keys", {"owner_id": bot})["token"])
    writer = admin.with_token(admin.create("/api_keys", {"scopes": ["federated_credentials:write"]})["token"])
    reader = admin.with_token(admin.create("/api_keys", {"scopes": ["*:read"]})["token"])
    changes = (("POST", PATH, fields(admin)), ("PATCH", path, {"enabled": False}), ("DELETE", path, None))
    for method, address, body in (("GET", PATH, None), ("GET", path, None), *changes):
        answer = member.send(method, address, body)
        assert_refused(answer, 403, "forbidden", "Only an admin may see and change federated credentials.")
    for method, address, body in changes:
        assert_refused(writer.send(method, address, body), 403, "forbidden", "This API key lacks the scope *.")
        lacking = "create" if method == "POST" else "write"
        msg = f"This API key lacks the scope federated_credentials:{lacking}."
        assert_refused(reader.send(method, address, body), 403, "forbidden", msg)
    assert reader.get(path).json == credential


def test_earlier_formats_of_records_have_none(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECORD_FORMAT", "3")
    msg = "Federated credentials are not accepted until the operator sets RECORD_FORMAT to 4."
    assert_refused(admin.post(PATH, fields(admin)), 409, "conflict", msg)
