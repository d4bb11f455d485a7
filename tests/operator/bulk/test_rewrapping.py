"""`secrets rewrap`: every secret is sealed under another key, and readable at each moment."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chalicelib.model.base import kinds
from chalicelib.model.tenants import sealed_values
from chalicelib.operator.bulk.rewrapping import WARNING, Rewrapping
from chalicelib.storage import vault
from chalicelib.storage.client import aws
from tests.conftest import stored
from tests.operator.commands import expect_failure, run
from tests.operator.tenants import busy, killing, worlds
from tests.transports import Client

KEY = "alias/tunnel-edge-2"


@pytest.fixture
def key(store: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Make a second key, which opens secrets too. Return its id."""
    kms = aws.client("kms")
    key_id = kms.create_key()["KeyMetadata"]["KeyId"]
    kms.create_alias(AliasName=KEY, TargetKeyId=key_id)
    monkeypatch.setenv("SECOND_KEY_ID", KEY)
    yield str(key_id)
    stored().clear()  # before its secrets are opened without the second key
    kms.delete_alias(AliasName=KEY)


def secrets() -> list[bytes]:
    """Return all secrets of the table, opened."""
    return [
        vault.unseal(value.ciphertext, value.context, bytes)
        for record in worlds.scan()
        for value in sealed_values.find(record)
    ]


def sealed_under(key: str) -> list[bool]:
    """Return for each ciphertext of the table whether it is under a key: the emulated KMS begins it with the key."""
    return [value.startswith(key.encode()) for value in worlds.ciphertexts(worlds.scan())]


def test_every_secret_is_sealed_again_and_counted(admin: Client, key: str) -> None:
    id_by_path = worlds.fill(admin)
    worlds.write_service()
    before, count = sorted(secrets()), len(sealed_under(key))
    tag = admin.get(id_by_path["oauth"]).headers["etag"]
    assert run("secrets", "rewrap", "--key", KEY) == [
        f"{count} secrets: {count} are sealed under {KEY}, {count} of them were sealed again.",
        f"All secrets are sealed under {KEY}.",
        WARNING,
    ]
    assert sealed_under(key) == [True] * count
    assert sorted(secrets()) == before
    assert admin.get(id_by_path["oauth"]).headers["etag"] == tag
    again = run("secrets", "rewrap", "--key", KEY)
    assert again[0] == f"{count} secrets: {count} are sealed under {KEY}, 0 of them were sealed again."


def test_killed_ten_times_while_clients_seal_with_the_former_key(
    admin: Client, stranger: Client, key: str, tmp_path: Path
) -> None:
    worlds.fill(admin)
    rewrapping = Rewrapping(KEY, tmp_path, lambda _: None)
    with busy.clients(stranger) as statuses:
        authority = admin.create("/ssh_certificate_authorities", {})["id"]
        killing.complete(rewrapping.run, seed=5, limit=30)
        assert len(secrets()) == len(sealed_under(key))
    assert {*sealed_under(key)} == {True}
    assert {*statuses} == {200, 201, 204}
    assert kinds.SSH_CERTIFICATE_AUTHORITIES.has(authority)


def test_a_secret_that_was_sealed_for_another_record_is_reported(admin: Client, key: str) -> None:
    id_by_path = worlds.fill(admin)
    scope = f"{admin.account}#/tls_certificates"
    aws.client("dynamodb").update_item(
        TableName="tunnel-edge",
        Key={"scope": {"S": scope}, "id": {"S": id_by_path["/tls_certificates"]}},
        UpdateExpression="SET sealed.private_key = :other",
        ExpressionAttributeValues={":other": {"B": vault.seal(b"x", vault.context("acct_other", "cert_1"))}},
    )
    message = expect_failure("secrets", "rewrap", "--key", KEY)
    assert message == "1 secrets cannot be decrypted. They are listed above."


def test_an_unknown_key_is_reported(admin: Client) -> None:
    admin.create("/ssh_certificate_authorities", {})
    assert "the key does not exist" in str(expect_failure("secrets", "rewrap", "--key", "alias/unknown"))
