"""SSH host certificates: made as those of users, without options, and for a year. `ssh-keygen` is the judge."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chalicelib import clock, ids
from tests import samples
from tests.refusals import assert_invalid
from tests.ssh.keygen import Certificate
from tests.transports import Client

PATH = "/ssh_host_certificates"
AUTHORITIES = "/ssh_certificate_authorities"
LATER = "must be after valid_after; unspecified it is 365 days after creation"


@pytest.fixture
def authority(admin: Client) -> Any:
    return admin.create(AUTHORITIES, {})


@pytest.fixture
def least(authority: Any) -> dict[str, Any]:
    """The smallest body that is accepted."""
    return {"ssh_certificate_authority_id": authority["id"], "public_key": samples.public_key()}


def test_a_certificate_is_shown_whole(admin: Client, least: dict[str, Any]) -> None:
    asked = {
        **least,
        "description": "d",
        "metadata": "m",
        "principals": ["db.example.com", "192.0.2.1"],
        "valid_after": "2030-01-01T00:00:00Z",
        "valid_until": "2031-01-01T00:00:00Z",
    }
    created = admin.create(PATH, asked)
    assert created == {
        **asked,
        "id": created["id"],
        "uri": f"http://localhost{PATH}/{created['id']}",
        "created_at": created["created_at"],
        "key_type": "ed25519",
        "certificate": created["certificate"],
    }
    assert ids.is_id(created["id"], "shcrt")
    assert admin.get(f"{PATH}/{created['id']}").json == created


@pytest.mark.parametrize("unspecified", ["absent", None, ""])
def test_what_is_not_specified_has_its_default(admin: Client, least: dict[str, Any], unspecified: object) -> None:
    times = ("valid_after", "valid_until")
    unset = {} if unspecified == "absent" else {**dict.fromkeys(times, unspecified), "principals": None}
    created = admin.create(PATH, {**least, **unset})
    until = clock.parse(created["created_at"]) + timedelta(days=365)
    assert created == {
        **least,
        "id": created["id"],
        "uri": created["uri"],
        "created_at": created["created_at"],
        "description": "",
        "metadata": "",
        "key_type": "ed25519",
        "principals": [],
        "valid_after": created["created_at"],
        "valid_until": clock.rfc3339(until),
        "certificate": created["certificate"],
    }


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_authorities_of_every_type_certify_hosts(admin: Client, kind: str) -> None:
    authority = admin.create(AUTHORITIES, {"private_key_type": kind})
    asked = {"ssh_certificate_authority_id": authority["id"], "public_key": samples.public_key()}
    created = admin.create(PATH, {**asked, "principals": ["db.example.com"]})
    read = Certificate.of(created["certificate"])
    without_options = {**created, "critical_options": {}, "extensions": {}}
    promised = Certificate.promised(without_options, authority, serial=read.serial)
    assert read == replace(promised, type="ssh-ed25519-cert-v01@openssh.com host certificate")
    assert read.serial != 0


@pytest.mark.parametrize("field", ["critical_options", "extensions"])
def test_hosts_have_no_options(admin: Client, least: dict[str, Any], field: str) -> None:
    known = "description, metadata, ssh_certificate_authority_id, public_key, principals, valid_after, valid_until"
    assert_invalid(admin.post(PATH, {**least, field: {}}), {field: f"is not a field here; known: {known}"})


@pytest.mark.parametrize(
    "times",
    [
        {"valid_after": "2030-01-01T00:00:00Z", "valid_until": "2030-01-01T00:00:00Z"},
        {"valid_after": "2130-01-01T00:00:00Z"},
        {"valid_until": "2020-01-01T00:00:00Z"},
    ],
)
def test_a_certificate_ends_after_it_starts(admin: Client, least: dict[str, Any], times: dict[str, str]) -> None:
    assert_invalid(admin.post(PATH, {**least, **times}), {"valid_until": LATER})


def test_every_bad_field_is_named_as_for_users(admin: Client) -> None:
    asked = {"ssh_certificate_authority_id": "x", "public_key": "x", "principals": [""], "valid_after": "x"}
    faults = {
        "ssh_certificate_authority_id": "must be an id of the form sshca_…",
        "public_key": "must be one line in OpenSSH authorized_keys form: <type> <base64> [comment]",
        "principals.0": "must not be empty nor hold control characters",
        "valid_after": "must be an RFC 3339 time, for example 2026-01-31T12:00:00Z",
    }
    assert_invalid(admin.post(PATH, asked), faults)


def test_the_authority_is_one_of_the_account(admin: Client, stranger: Client, least: dict[str, Any]) -> None:
    field = "ssh_certificate_authority_id"
    for id in (stranger.create(AUTHORITIES, {})["id"], ids.new("sshca")):
        answer = admin.post(PATH, {**least, field: id})
        assert (answer.status, answer.json["error_code"]) == (400, "unknown_reference")
        assert answer.json["details"][field] == f"must be an id listed at {AUTHORITIES}"
    assert admin.get(PATH).json["ssh_host_certificates"] == []


def test_a_change_alters_only_what_describes_a_certificate(admin: Client, least: dict[str, Any]) -> None:
    created = admin.create(PATH, least)
    changed = admin.patch(f"{PATH}/{created['id']}", {"description": "new", "metadata": "too"}).json
    assert changed == {**created, "description": "new", "metadata": "too"}
    answer = admin.patch(f"{PATH}/{created['id']}", {"principals": ["other.example.com"]})
    assert_invalid(answer, {"principals": "is not a field here; known: description, metadata"})
