"""The extension bind@tunnel-edge of user certificates: signing it, and what policies require of it."""

from typing import Any

import pytest

from chalicelib.operator import owners
from tests import samples
from tests.refusals import assert_invalid
from tests.transports import Answer, Client

AUTHORITIES, USERS, HOSTS = "/ssh_certificate_authorities", "/ssh_user_certificates", "/ssh_host_certificates"
BIND, FORWARDING = "bind@tunnel-edge", "permit-port-forwarding"
FIELD = f"extensions.{BIND}"
POLICY = "as the policy of the authority requires"
MISSING = f"must be set if the certificate has the extension {FORWARDING}, {POLICY}"


def beyond(*bounds: str) -> str:
    return f"must have only rules that are equal to or narrower than {' or '.join(bounds)}, {POLICY}"


@pytest.fixture
def authority(admin: Client) -> str:
    return str(admin.create(AUTHORITIES, {})["id"])


def sign(client: Client, authority: str, extensions: dict[str, str]) -> Answer:
    body = {"ssh_certificate_authority_id": authority, "public_key": samples.public_key(), "extensions": extensions}
    return client.post(USERS, body)


def test_the_rules_are_signed_and_shown_in_the_event(admin: Client, authority: str) -> None:
    extensions = {FORWARDING: "", BIND: "bind:demo.example.com,bind:example.com:20022,bind:region=eu"}
    answer = sign(admin, authority, extensions)
    assert (answer.status, answer.json["extensions"]) == (201, extensions)
    (event,) = admin.get(f"/audit_events?resource_id={answer.json['id']}").json["audit_events"]
    assert event["details"]["bind"] == ["bind:demo.example.com", "bind:example.com:20022", "bind:region=eu"]
    other = sign(admin, authority, {FORWARDING: ""}).json["id"]
    (event,) = admin.get(f"/audit_events?resource_id={other}").json["audit_events"]
    assert "bind" not in event["details"]


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("", "''"),
        ("demo.example.com", "'demo.example.com'"),
        ("bind:a.example,", "''"),
        ("bind:a.example, bind:b.example", "' bind:b.example'"),
        ("bind:a.example,bind:*.", "'bind:*.'"),
        ("bind:a.example:0", "'bind:a.example:0'"),
        ("bind:a=x,y", "'y'"),
    ],
)
def test_invalid_rules_are_not_signed(admin: Client, authority: str, value: str, rule: str) -> None:
    error = sign(admin, authority, {BIND: value}).json["details"][FIELD]
    assert error.startswith(f"must be comma-separated rules: {rule} must ")
    policy = {"user": {"default_extensions": {BIND: value}}}
    wrong = admin.put(f"{AUTHORITIES}/{authority}/policy", policy).json["details"]
    assert wrong[f"user.default_{FIELD}"] == error


def test_host_certificates_have_no_rules(admin: Client, authority: str) -> None:
    body = {"ssh_certificate_authority_id": authority, "public_key": samples.public_key()}
    answer = admin.post(HOSTS, {**body, "principals": ["h.example"], "extensions": {BIND: "*"}})
    assert "extensions" not in answer.json


def test_allowed_extensions_never_reject_a_restriction(admin: Client, authority: str) -> None:
    bounds = {"allowed_extensions": [FORWARDING], "default_extensions": {FORWARDING: "", BIND: "bind:*.example.com"}}
    assert admin.put(f"{AUTHORITIES}/{authority}/policy", {"user": bounds}).status == 200
    assert sign(admin, authority, {}).json["extensions"] == bounds["default_extensions"]
    assert sign(admin, authority, {FORWARDING: "", BIND: "*"}).status == 201


RULES = ["bind:*.example.com", "bind:team=*", "bind:example.com:22"]
WITHIN, BEYOND = "bind:a.example.com,bind:team=x", "bind:a.example.com,bind:b.example.org"


@pytest.mark.parametrize(
    ("bounds", "extensions", "error"),
    [
        ({}, {FORWARDING: ""}, ""),
        ({"require_bind": True}, {FORWARDING: ""}, MISSING),
        ({"require_bind": True}, {"permit-pty": ""}, ""),
        ({"require_bind": True}, {FORWARDING: "", BIND: "*"}, ""),
        ({"allowed_bind": RULES}, {FORWARDING: ""}, MISSING),
        ({"allowed_bind": RULES, "require_bind": False}, {FORWARDING: ""}, MISSING),
        ({"allowed_bind": RULES}, {"permit-pty": ""}, ""),
        ({"allowed_bind": RULES}, {FORWARDING: "", BIND: WITHIN}, ""),
        ({"allowed_bind": RULES}, {FORWARDING: "", BIND: "bind:example.com:22"}, ""),
        ({"allowed_bind": RULES}, {FORWARDING: "", BIND: BEYOND}, beyond(*RULES)),
        ({"allowed_bind": RULES}, {BIND: BEYOND}, beyond(*RULES)),
        ({"allowed_bind": RULES}, {FORWARDING: "", BIND: "*"}, beyond(*RULES)),
        ({"allowed_bind": RULES}, {FORWARDING: "", BIND: "bind:*=*"}, beyond(*RULES)),
        ({"allowed_bind": ["*"]}, {FORWARDING: "", BIND: "*"}, ""),
    ],
)
def test_a_policy_bounds_the_rules(
    admin: Client, authority: str, bounds: dict[str, Any], extensions: dict[str, str], error: str
) -> None:
    assert admin.put(f"{AUTHORITIES}/{authority}/policy", {"user": bounds}).status == 200
    answer = sign(admin, authority, extensions)
    if error:
        assert_invalid(answer, {FIELD: error})
    else:
        assert (answer.status, answer.json["extensions"]) == (201, extensions)


@pytest.mark.parametrize(
    ("name", "value", "is_signed"),
    [
        ("alice", "bind:alice.example.com", True),
        ("alice", "bind:x.alice.example.com", False),
        ("alice", "bind:bob.example.com", False),
        ("*", "bind:*.example.com", False),
        ("a,b", "bind:a", False),
        ("not a label", "bind:a.example.com", False),
    ],
)
def test_the_name_of_the_caller_is_literal(
    admin: Client, authority: str, name: str, value: str, is_signed: bool
) -> None:
    bot = owners.add_owner(admin.account, "bot", name, admin=False).id
    key = admin.create("/api_keys", {"owner_id": bot})["token"]
    bounds = {"allowed_bind": ["bind:{user}.example.com"]}
    assert admin.put(f"{AUTHORITIES}/{authority}/policy", {"user": bounds}).status == 200
    answer = sign(admin.with_token(key), authority, {FORWARDING: "", BIND: value})
    if is_signed:
        assert answer.status == 201
    else:
        assert_invalid(answer, {FIELD: beyond("bind:{user}.example.com")})


def test_invalid_bounds_and_the_fourth_format(admin: Client, authority: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = f"{AUTHORITIES}/{authority}/policy"
    for rules, index in ((["x"], "0"), (["bind:a.example,bind:b.example"], "0"), (["*", "bind:{user}x y"], "1")):
        assert f"user.allowed_bind.{index}" in admin.put(policy, {"user": {"allowed_bind": rules}}).json["details"]
    assert "user.allowed_bind" in admin.put(policy, {"user": {"allowed_bind": []}}).json["details"]
    monkeypatch.setenv("RECORD_FORMAT", "3")
    rule = "must be null until the operator sets RECORD_FORMAT to 4"
    user = {"require_bind": True, "allowed_bind": ["*"]}
    assert_invalid(admin.put(policy, {"user": user}), {"user.allowed_bind": rule, "user.require_bind": rule})
    assert admin.put(policy, {"user": {"require_bind": False}}).status == 200
