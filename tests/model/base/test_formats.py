"""Records of the formats 2 and 3: both are shown as the same, and converted from each to the other."""

from typing import Any

import pytest

from chalicelib import __main__ as operator
from chalicelib.storage.client import aws
from tests import openssl
from tests.samples import public_key
from tests.transports import Client, key_in

PACKED = {
    "/ssh_host_certificates": {"public_key", "certificate"},
    "/ssh_user_certificates": {"public_key", "certificate"},
    "/tls_certificates": {"certificate_pem"},
    "/certificate_authorities": {"ca_pem"},
}
CHANGE = {"description": "changed", "metadata": "m"}


def requests(client: Client) -> dict[str, Any]:
    """Return a request for each kind with texts that are stored as bytes."""
    authority = client.create("/ssh_certificate_authorities", {})["id"]
    fields = {"ssh_certificate_authority_id": authority, "public_key": f"{public_key()} alice@laptop"}
    chain = openssl.chain("p256", "p256").upload
    root = openssl.issue(extensions=("basicConstraints=critical,CA:TRUE",))
    return {
        "/ssh_host_certificates": fields,
        "/ssh_user_certificates": fields,
        "/tls_certificates": chain,
        "/certificate_authorities": {"ca_pem": root.certificate},
    }


def kept_as_bytes() -> dict[str, set[str]]:
    """Return by path the fields that are stored as bytes."""
    records = aws.client("dynamodb").scan(TableName="tunnel-edge")["Items"]
    bodies = {path: record["body"]["M"] for record in records for path in PACKED if record["scope"]["S"].endswith(path)}
    return {path: {name for name, value in body.items() if "B" in value} for path, body in bodies.items()}


@pytest.mark.parametrize(("first", "then"), [("2", "3"), ("3", "2")])
def test_records_of_each_format_are_shown_changed_and_converted_to_the_other(
    admin: Client, monkeypatch: pytest.MonkeyPatch, first: str, then: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RECORD_FORMAT", first)
    resources = {
        f"{path}/{(resource := admin.create(path, body))['id']}": resource for path, body in requests(admin).items()
    }
    forms: dict[str, dict[str, set[str]]] = {"2": {path: set() for path in PACKED}, "3": PACKED}
    assert kept_as_bytes() == forms[first]
    monkeypatch.setenv("RECORD_FORMAT", then)
    assert {address: admin.get(address).json for address in resources} == resources
    for address, before in resources.items():
        assert admin.patch(address, CHANGE).json == {**before, **CHANGE}
        event = admin.get(f"/audit_events?resource_id={before['id']}").json["audit_events"][0]
        assert event["changed"] == ["description", "metadata"]
    assert kept_as_bytes() == forms[first]
    tags = {address: admin.get(address).headers["etag"] for address in resources}
    operator.main(["migrate", "--apply"])
    assert kept_as_bytes() == forms[then]
    assert {address: admin.get(address).json for address in resources} == {
        address: {**resource, **CHANGE} for address, resource in resources.items()
    }
    assert {address: admin.get(address).headers["etag"] for address in resources} != tags
    capsys.readouterr()
    operator.main(["migrate", "--apply"])
    assert capsys.readouterr().out.endswith("to be rewritten: none.\n0 rewritten.\n")


def test_events_of_2_0_0_are_found_by_their_actor_after_the_migration(
    admin: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    key = key_in(admin.token)
    bot = admin.create("/bot_users", {"name": "deployer"})["id"]
    deleted_key = admin.create("/api_keys", {"owner_id": bot})
    backend_id = admin.with_token(deleted_key["token"]).create("/backends/weighted", {})["id"]
    admin.delete(f"/api_keys/{deleted_key['id']}")
    ids_by_actor = {actor: events_of(admin, actor) for actor in (key, admin.user, deleted_key["id"], bot)}
    assert ids_by_actor[bot] == ids_by_actor[deleted_key["id"]] == [backend_id]

    store = aws.client("dynamodb")
    for record in store.scan(TableName="tunnel-edge")["Items"]:
        item_key = {"TableName": "tunnel-edge", "Key": {name: record[name] for name in ("scope", "id")}}
        if "acted" in record:
            store.update_item(**item_key, UpdateExpression="REMOVE acted")
        if "/audit_events/keys/" in record["scope"]["S"]:
            store.delete_item(**item_key)
    assert [events_of(admin, actor) for actor in ids_by_actor] == [[], [], [], []]

    operator.main(["migrate", "--apply"])
    assert {actor: events_of(admin, actor) for actor in ids_by_actor} == ids_by_actor
    capsys.readouterr()
    operator.main(["migrate"])
    assert "to be rewritten: none" in capsys.readouterr().out


def events_of(client: Client, actor: str) -> list[str]:
    """Return what the events of an actor are about, the newest first."""
    events = client.get(f"/audit_events?actor_id={actor}").json["audit_events"]
    return [event["resource_id"] for event in events]
