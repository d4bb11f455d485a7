"""Revocations of an SSH authority: by certificate, serial or key; listed, taken back, and gone with their end."""

from typing import Any

import pytest

from chalicelib import ids
from chalicelib.crypto import public_keys
from tests import samples
from tests.live.ssh.keygen import Certificate
from tests.refusals import assert_invalid, assert_not_found, assert_refused
from tests.transports import Answer, Client

AUTHORITIES = "/ssh_certificate_authorities"
USERS, HOSTS = "/ssh_user_certificates", "/ssh_host_certificates"
LARGEST = str(2**64 - 1)
SUBJECTS = "ssh_user_certificate_id, ssh_host_certificate_id, serial, public_key"
ALONE = f"must be set alone: exactly one of {SUBJECTS} is accepted"
FIELD = {USERS: "ssh_user_certificate_id", HOSTS: "ssh_host_certificate_id"}
each_kind = pytest.mark.parametrize("kind", [USERS, HOSTS])


@pytest.fixture
def authority(admin: Client) -> str:
    return str(admin.create(AUTHORITIES, {})["id"])


@pytest.fixture
def path(authority: str) -> str:
    return f"{AUTHORITIES}/{authority}/revocations"


def certify(client: Client, kind: str, authority: str, **fields: Any) -> Any:
    body = {"ssh_certificate_authority_id": authority, "public_key": samples.public_key()}
    return client.create(kind, {**body, **fields})


def serial(certificate: Any) -> str:
    return str(Certificate.of(certificate["certificate"]).serial)


def list_revocations(client: Client, path: str) -> list[Any]:
    return list(client.all(path, "revocations"))


def assert_conflict(answer: Answer, field: str, rule: str) -> None:
    assert (answer.status, answer.json["error_code"]) == (409, "conflict"), answer.text
    assert answer.json["details"][field] == rule


@each_kind
def test_a_certificate_is_revoked_by_its_id(admin: Client, authority: str, path: str, kind: str) -> None:
    certificate = certify(admin, kind, authority)
    revocation = admin.create(path, {FIELD[kind]: certificate["id"], "reason": "left the company"})
    assert revocation == {
        "id": revocation["id"],
        "uri": f"http://localhost{path}/{revocation['id']}",
        "created_at": revocation["created_at"],
        "reason": "left the company",
        FIELD[kind]: certificate["id"],
        "serial": serial(certificate),
        "valid_until": certificate["valid_until"],
    }
    assert ids.is_id(revocation["id"], "sshrv")
    assert admin.get(f"{path}/{revocation['id']}").json == revocation
    assert list_revocations(admin, path) == [revocation]
    assert admin.get(f"{kind}/{certificate['id']}").json == certificate


def test_a_serial_is_revoked_without_a_record(admin: Client, path: str) -> None:
    for number in ("1", LARGEST):
        revocation = admin.create(path, {"serial": number})
        server_fields = {name: revocation[name] for name in ("id", "uri", "created_at")}
        assert revocation == {**server_fields, "serial": number}
        assert admin.get(f"{path}/{revocation['id']}").json == revocation


def test_a_key_is_revoked_in_any_form(admin: Client, path: str) -> None:
    key = f"{samples.public_key()} ann@laptop"
    revocation = admin.create(path, {"public_key": key, "reason": "stolen"})
    server_fields = {name: revocation[name] for name in ("id", "uri", "created_at")}
    fingerprint = public_keys.fingerprint(key)
    assert revocation == {**server_fields, "reason": "stolen", "public_key": key, "key_fingerprint": fingerprint}
    assert list_revocations(admin, path) == [revocation]


def test_exactly_one_thing_is_revoked(admin: Client, authority: str, path: str) -> None:
    assert_invalid(
        admin.post(path, {"reason": "none"}), dict.fromkeys((*FIELD.values(), "serial", "public_key"), ALONE)
    )
    both = {"serial": "1", "public_key": samples.public_key()}
    assert_invalid(admin.post(path, both), dict.fromkeys(both, ALONE))
    assert list_revocations(admin, path) == []


@pytest.mark.parametrize("number", [1, "0", "-1", "01", "1.0", "0x1", " 1", "١", str(2**64), "9" * 30])
def test_a_serial_is_a_decimal_number_of_64_bits(admin: Client, path: str, number: object) -> None:
    of_strings = f"must be a decimal number from 1 to {LARGEST}, as a string"
    rule = of_strings if isinstance(number, str) else "must be a string"
    assert_invalid(admin.post(path, {"serial": number}), {"serial": rule})


def test_every_bad_field_is_named(admin: Client, path: str) -> None:
    wrong = {"ssh_user_certificate_id": "x", "public_key": "x", "reason": "é" * 128, "colour": "red"}
    field_names = "ssh_user_certificate_id, ssh_host_certificate_id, serial, public_key, reason"
    answer = admin.post(path, wrong)
    assert answer.status == 400
    assert answer.json["details"].keys() == {*wrong, "operation_id"}
    assert answer.json["details"]["ssh_user_certificate_id"] == "must be an id of the form sucrt_…"
    assert answer.json["details"]["colour"] == f"is not accepted here; accepted: {field_names}"


@each_kind
def test_a_certificate_is_one_that_the_authority_signed(
    admin: Client, stranger: Client, authority: str, path: str, kind: str
) -> None:
    elsewhere = certify(admin, kind, admin.create(AUTHORITIES, {})["id"])["id"]
    stranger_certificate = certify(stranger, kind, stranger.create(AUTHORITIES, {})["id"])["id"]
    prefix = elsewhere.partition("_")[0]
    for id in (elsewhere, stranger_certificate, ids.new(prefix)):
        answer = admin.post(path, {FIELD[kind]: id})
        assert (answer.status, answer.json["error_code"]) == (400, "unknown_reference")
        assert answer.json["details"][FIELD[kind]] == "must be the id of a certificate that this authority signed"


def test_a_certificate_that_has_ended_needs_no_revocation(admin: Client, authority: str, path: str) -> None:
    times = {"valid_after": "2020-01-01T00:00:00Z", "valid_until": "2021-01-01T00:00:00Z"}
    expired_certificate = certify(admin, USERS, authority, **times)
    answer = admin.post(path, {"ssh_user_certificate_id": expired_certificate["id"]})
    assert_invalid(answer, {"ssh_user_certificate_id": "must be the id of a certificate that has not expired"})
    assert admin.delete(f"{USERS}/{expired_certificate['id']}").status == 204
    assert list_revocations(admin, path) == []


def test_nothing_is_revoked_twice(admin: Client, authority: str, path: str) -> None:
    certificate = certify(admin, USERS, authority)
    admin.create(path, {"ssh_user_certificate_id": certificate["id"]})
    key = samples.public_key()
    admin.create(path, {"public_key": key})
    rule = "must not be revoked already"
    for field, value in (
        ("ssh_user_certificate_id", certificate["id"]),
        ("serial", serial(certificate)),
        ("public_key", f"{key} another comment"),
    ):
        assert_conflict(admin.post(path, {field: value}), field, rule)
    assert len(list_revocations(admin, path)) == 2


@each_kind
def test_deleting_a_certificate_that_has_not_ended_revokes_it(
    admin: Client, authority: str, path: str, kind: str
) -> None:
    certificate = certify(admin, kind, authority)
    assert admin.delete(f"{kind}/{certificate['id']}").status == 204
    (revocation,) = list_revocations(admin, path)
    assert revocation == {
        "id": revocation["id"],
        "uri": revocation["uri"],
        "created_at": revocation["created_at"],
        FIELD[kind]: certificate["id"],
        "serial": serial(certificate),
        "valid_until": certificate["valid_until"],
    }
    assert_not_found(admin.delete(f"{kind}/{certificate['id']}"), kind)


@each_kind
def test_the_event_of_a_deletion_tells_of_the_certificate_what_that_of_its_creation_did(
    admin: Client, authority: str, kind: str
) -> None:
    certificate = certify(admin, kind, authority)
    assert admin.delete(f"{kind}/{certificate['id']}").status == 204
    deleted, creation = admin.get(f"/audit_events?resource_id={certificate['id']}").json["audit_events"]
    assert deleted["details"] == creation["details"]
    assert deleted["details"]["serial"] == serial(certificate)


def test_deleting_a_revoked_certificate_leaves_its_one_revocation(admin: Client, authority: str, path: str) -> None:
    certificate = certify(admin, USERS, authority)
    revocation = admin.create(path, {"ssh_user_certificate_id": certificate["id"], "reason": "r"})
    assert admin.delete(f"{USERS}/{certificate['id']}").status == 204
    assert list_revocations(admin, path) == [revocation]


def test_a_revocation_is_taken_back(admin: Client, path: str) -> None:
    key = samples.public_key()
    for body in ({"serial": "7"}, {"public_key": key}):
        revocation = admin.create(path, body)
        assert admin.delete(f"{path}/{revocation['id']}").status == 204
        assert_not_found(admin.get(f"{path}/{revocation['id']}"), f"{AUTHORITIES}/{{id}}/revocations")
        assert_not_found(admin.delete(f"{path}/{revocation['id']}"), f"{AUTHORITIES}/{{id}}/revocations")
        assert list_revocations(admin, path) == []
        admin.create(path, body)
        admin.delete(list_revocations(admin, path)[0]["uri"].removeprefix("http://localhost"))


@each_kind
def test_a_revoked_key_is_signed_no_more(admin: Client, authority: str, path: str, kind: str) -> None:
    key = samples.public_key()
    revocation = admin.create(path, {"public_key": key})
    body = {"ssh_certificate_authority_id": authority, "public_key": f"{key} renamed"}
    answer = admin.post(kind, body)
    assert_conflict(answer, "public_key", "must be a key that the authority has not revoked")
    elsewhere = admin.create(AUTHORITIES, {})["id"]
    assert admin.post(kind, {**body, "ssh_certificate_authority_id": elsewhere}).status == 201
    admin.delete(f"{path}/{revocation['id']}")
    assert admin.post(kind, body).status == 201


def test_the_revocations_of_an_authority_are_its_accounts(admin: Client, stranger: Client, path: str) -> None:
    revocation = admin.create(path, {"serial": "7"})
    assert_not_found(stranger.get(path), AUTHORITIES)
    assert_not_found(stranger.post(path, {"serial": "8"}), AUTHORITIES)
    for method in ("GET", "DELETE"):
        assert_not_found(stranger.send(method, f"{path}/{revocation['id']}"), f"{AUTHORITIES}/{{id}}/revocations")
    nowhere = f"{AUTHORITIES}/{ids.new('sshca')}/revocations"
    assert_not_found(admin.get(nowhere), AUTHORITIES)
    assert_not_found(admin.post(nowhere, {"serial": "8"}), AUTHORITIES)
    assert list_revocations(admin, path) == [revocation]


def test_the_revocations_outlive_their_authority(admin: Client, authority: str, path: str) -> None:
    certificate, other = certify(admin, USERS, authority), certify(admin, USERS, authority)
    admin.delete(f"{USERS}/{certificate['id']}")
    assert admin.delete(f"{AUTHORITIES}/{authority}").status == 204
    assert [revocation["serial"] for revocation in list_revocations(admin, path)] == [serial(certificate)]
    admin.delete(f"{USERS}/{other['id']}")
    assert {revocation["serial"] for revocation in list_revocations(admin, path)} == {
        serial(certificate),
        serial(other),
    }
    admin.create(path, {"public_key": samples.public_key()})


def test_the_first_certificate_that_is_deleted_after_its_authority_begins_the_list_again(
    admin: Client, authority: str, path: str
) -> None:
    certificate = certify(admin, USERS, authority)
    admin.delete(f"{AUTHORITIES}/{authority}")
    assert_not_found(admin.get(path), AUTHORITIES)
    admin.delete(f"{USERS}/{certificate['id']}")
    assert [revocation["serial"] for revocation in list_revocations(admin, path)] == [serial(certificate)]


def test_a_request_that_is_repeated_revokes_once(admin: Client, path: str) -> None:
    first = admin.send("POST", path, {"serial": "7"}, Idempotency_Key="a")
    assert first.status == 201, first.text
    again = admin.send("POST", path, {"serial": "7"}, Idempotency_Key="a")
    assert (again.status, again.json) == (201, first.json)
    other = admin.send("POST", path, {"serial": "8"}, Idempotency_Key="a")
    msg = "This Idempotency-Key was already used for another request: choose another key."
    assert_refused(other, 409, "conflict", msg)
    assert [revocation["serial"] for revocation in list_revocations(admin, path)] == ["7"]
    events = admin.all("/audit_events", "audit_events")
    assert len([event for event in events if event["resource_id"] == first.json["id"]]) == 1
