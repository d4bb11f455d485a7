"""What audit events tell of who and what: names, bounds, references and rights, in the order of each resource."""

import json
from typing import Any

import pytest

from chalicelib import __main__ as operator
from chalicelib.model.names import base_names
from chalicelib.operator import owners, tunnels
from chalicelib.storage.client import aws
from tests.events import page
from tests.samples import public_key
from tests.transports import Client, key_in

POLICY = {"user": {"max_lifetime": 60, "allowed_principals": ["{user}"]}, "host": None}


def newest(client: Client, action: str) -> Any:
    return next(event for event in page(client) if event["action"] == action)


def test_they_tell_who_let_which_key_in_again(admin: Client) -> None:
    authority = admin.create("/ssh_certificate_authorities", {})["id"]
    path = f"/ssh_certificate_authorities/{authority}/revocations"
    revocation = admin.create(path, {"public_key": public_key(), "reason": "a reason of mine"})
    assert admin.delete(f"{path}/{revocation['id']}").status == 204
    creation, deletion = newest(admin, "ssh_revocation.create"), newest(admin, "ssh_revocation.delete")
    assert creation["details"] == deletion["details"] == {"key_fingerprint": revocation["key_fingerprint"]}
    assert (deletion["actor"]["name"], deletion["actor"]["owner_id"]) == ("admin", admin.user)
    assert deletion["resource_uri"].endswith(f"{path}/{revocation['id']}")


def test_they_tell_what_a_policy_bound_before_and_after(admin: Client) -> None:
    authority = admin.create("/ssh_certificate_authorities", {})
    address = f"/ssh_certificate_authorities/{authority['id']}/policy"
    assert admin.put(address, POLICY).status == 200
    assert admin.put(address, {"user": {"max_lifetime": 600_000_000}}).status == 200
    replaced = newest(admin, "ssh_certificate_authority.policy.replace")
    assert replaced["changed"] == ["user"]
    assert replaced["details"] == {
        "before": {"user.max_lifetime": "60", "user.allowed_principals": ["{user}"]},
        "after": {"user.max_lifetime": "600000000"},
    }
    assert admin.delete(address).status == 204
    details = newest(admin, "ssh_certificate_authority.policy.delete")["details"]
    assert details["before"]["user.max_lifetime"] == "600000000"
    assert details["after"] == {}


def test_they_tell_what_a_deleted_key_could_do_and_who_had_made_it(admin: Client) -> None:
    fields = {"scopes": ["ssh_user_certificates:write"], "expires_at": "2100-01-01T00:00:00Z"}
    key = admin.create("/api_keys", fields)
    assert admin.delete(f"/api_keys/{key['id']}").status == 204
    deletion, creation = page(admin, f"resource_id={key['id']}")
    assert deletion["details"] == creation["details"]
    assert deletion["details"].items() >= {**fields, "owner_id": admin.user}.items()
    assert creation["actor"]["key_id"] == key_in(admin.token)


def test_they_tell_of_a_key_without_scopes_that_it_could_do_all(admin: Client) -> None:
    key = admin.create("/api_keys", {})["id"]
    (event,) = page(admin, f"resource_id={key}")
    assert event["details"]["scopes"] == ["*"]


def test_they_tell_of_rights_references_and_sealed_secrets_before_and_after(admin: Client) -> None:
    credential = admin.create("/ssh_credentials", {"public_key": public_key(), "acl": ["bind:a.example.com"]})
    admin.patch(f"/ssh_credentials/{credential['id']}", {"acl": [], "description": "some text"})
    event = newest(admin, "ssh_credential.update")
    assert event["changed"] == ["acl", "description"]
    assert event["details"] == {"before": {"acl": ["bind:a.example.com"]}, "after": {"acl": []}}
    edge = admin.create("/edges/https", {"hostports": ["tell.example.com:443"]})["id"]
    route = admin.create(f"/edges/https/{edge}/routes", {"match_type": "exact_path", "match": "/"})["id"]
    for secret in ("a-secret-of-a-provider", "another-secret-of-it"):
        provider = {"github": {"client_id": "app", "client_secret": secret, "scopes": ["user"]}}
        assert admin.put(f"/edges/https/{edge}/routes/{route}/oauth", {"provider": provider}).status == 200
    sealed = {"provider.github.client_secret": "(secret)"}
    assert newest(admin, "https_edge_route.oauth.replace")["details"] == {"before": sealed, "after": sealed}
    text = json.dumps(page(admin))
    assert "of-a-provider" not in text
    assert "some text" not in text


def test_revisions_tell_the_order_of_forty_changes_of_one_resource(admin: Client) -> None:
    address = f"/backends/weighted/{admin.create('/backends/weighted', {})['id']}"
    for number in range(39):
        assert admin.patch(address, {"description": str(number)}).status == 200
    assert admin.delete(address).status == 204
    events = page(admin, f"resource_id={address.rpartition('/')[2]}")
    assert sorted(event["revision"] for event in events) == [*range(1, 42)]
    verbs = [event["action"].rpartition(".")[2] for event in sorted(events, key=lambda event: event["revision"])]
    assert verbs == ["create", *["update"] * 39, "delete"]


def test_the_operator_has_a_name_an_operation_and_a_host(admin: Client, capsys: pytest.CaptureFixture[str]) -> None:
    operator.main(["--as", "eve\n of the night", "users", "add", admin.account, "ada"])
    (event,) = page(admin, f"resource_id={capsys.readouterr().out.strip()}")
    assert event["actor"] == {"type": "operator", "key_id": "", "owner_id": "", "name": "eve of the night"}
    assert event["operation_id"].startswith("op_")
    assert event["source_ip"]
    assert event["details"] == {"name": "ada", "active": "true", "role": "member"}
    operator.main(["users", "add", admin.account, "bob"])
    (event,) = page(admin, f"resource_id={capsys.readouterr().out.strip()}")
    assert event["actor"]["name"]


def test_the_operators_reason_is_told_by_the_events_of_what_ends_or_is_switched(admin: Client) -> None:
    account, key = admin.account, admin.create("/api_keys", {})["id"]
    user, bot = (
        owners.add_owner(account, "usr", "ada", admin=False).id,
        admin.create("/bot_users", {"name": "b"})["id"],
    )
    labels = {"app": "web"}
    commands = {
        f"tunnels end {tunnels.open_demo_tunnel(account, labels)}": "tunnel.delete",
        f"keys revoke {account} {key}": "api_key.delete",
        f"bots disable {account} {bot}": "bot_user.update",
        f"bots enable {account} {bot}": "bot_user.update",
        f"users disable {account} {user}": "user.update",
        f"users delete {account} {user}": "user.delete",
        f"accounts disable {account}": "account.update",
        f"accounts enable {account}": "account.update",
    }
    for command, action in commands.items():
        operator.main([*command.split(), "--reason", "a leaked\x1b[2J key " + "é" * 200])
        if command != f"accounts disable {account}":
            assert newest(admin, action)["details"]["reason"] == "a leaked[2J key " + "é" * 119, command
    operator.main(["bots", "disable", account, bot])
    assert "reason" not in newest(admin, "bot_user.update")["details"]


def test_an_actor_has_the_name_of_then(admin: Client) -> None:
    bot = admin.create("/bot_users", {"name": "deployer"})["id"]
    key = admin.create("/api_keys", {"owner_id": bot})
    pipeline = admin.with_token(key["token"])
    pipeline.create("/backends/weighted", {})
    assert admin.patch(f"/bot_users/{bot}", {"name": "builder"}).status == 200
    pipeline.create("/backends/weighted", {})
    assert [event["actor"]["name"] for event in page(admin, f"actor_id={bot}")] == ["builder", "deployer"]


def test_a_key_of_2_0_0_acts_under_its_owners_name(admin: Client) -> None:
    aws.client("dynamodb").update_item(
        TableName="tunnel-edge",
        Key={"scope": {"S": f"token#{key_in(admin.token).removeprefix('ak_')}"}, "id": {"S": "claim"}},
        UpdateExpression="REMOVE #body.#name",
        ExpressionAttributeNames={"#body": "body", "#name": "name"},
    )
    admin.create("/backends/weighted", {})
    assert newest(admin, "weighted_backend.create")["actor"]["name"] == "admin"


def test_actions_are_found_by_what_they_begin_with(admin: Client) -> None:
    authority = admin.create("/ssh_certificate_authorities", {})["id"]
    admin.create("/backends/weighted", {})
    admin.create("/ssh_user_certificates", {"ssh_certificate_authority_id": authority, "public_key": public_key()})
    actions = [event["action"] for event in page(admin, "action=ssh_*")]
    assert actions == ["ssh_user_certificate.create", "ssh_certificate_authority.create"]
    assert [event["action"] for event in page(admin, "action=weighted_backend.cr*")] == ["weighted_backend.create"]
    assert page(admin, "action=*") == page(admin)


def test_they_tell_which_name_was_reserved_and_the_certificate_before_and_after(admin: Client) -> None:
    certificate = "cert_2TfXCSmBHSvnQdwvT1fBtQ1mFEY"
    reservation = admin.create("/reserved_domains", {"domain": "Shop.Example.com", "proxy_protocol": True})
    admin.patch(f"/reserved_domains/{reservation['id']}", {"certificate_id": certificate})
    assert admin.delete(f"/reserved_domains/{reservation['id']}").status == 204
    deletion, update, creation = page(admin, f"resource_id={reservation['id']}")
    details = {"domain": "shop.example.com", "proxy_protocol": "true"}
    assert (creation["details"], deletion["details"]) == (details, {**details, "certificate_id": certificate})
    assert update["details"] == {"before": {}, "after": {"certificate_id": certificate}}


def test_they_tell_which_port_was_reserved(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNNEL_DOMAIN", "tunnels.example")
    monkeypatch.setenv("TCP_PORTS", "20000")
    base_names.forget_settings()
    try:
        reservation = admin.create("/reserved_addrs", {"region": "us"})
    finally:
        base_names.forget_settings()
    (event,) = page(admin, f"resource_id={reservation['id']}")
    assert event["details"] == {"addr": "tunnels.example:20000", "proxy_protocol": "false"}
