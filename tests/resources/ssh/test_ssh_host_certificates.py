"""SSH host certificates: made as those of users, without options, and for a year. `ssh-keygen` is the judge."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chalicelib import clock
from tests import samples
from tests.live.ssh.keygen import Certificate
from tests.refusals import assert_invalid
from tests.transports import Client, key_in

PATH = "/ssh_host_certificates"
AUTHORITIES = "/ssh_certificate_authorities"
LATER = "must be after valid_after; the default is 365 days after creation"


@pytest.fixture
def least(admin: Client) -> dict[str, Any]:
    """Return the smallest body that is accepted."""
    return samples.BODIES[PATH](admin)


def test_what_is_not_specified_has_its_default(admin: Client, least: dict[str, Any]) -> None:
    certificate = admin.create(PATH, least)
    until = clock.parse(certificate["created_at"]) + timedelta(days=365)
    assert certificate == {
        **least,
        "id": certificate["id"],
        "created_by": key_in(admin.token),
        "uri": certificate["uri"],
        "created_at": certificate["created_at"],
        "description": "",
        "metadata": "",
        "key_type": "ed25519",
        "principals": [],
        "valid_after": certificate["created_at"],
        "valid_until": clock.rfc3339(until),
        "certificate": certificate["certificate"],
    }


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_authorities_of_every_type_certify_hosts(admin: Client, kind: str) -> None:
    size = {"key_size": 2048} if kind == "rsa" else {}
    authority = admin.create(AUTHORITIES, {"private_key_type": kind, **size})
    body = {"ssh_certificate_authority_id": authority["id"], "public_key": samples.public_key()}
    certificate = admin.create(PATH, {**body, "principals": ["db.example.com"]})
    read = Certificate.of(certificate["certificate"])
    without_options = {**certificate, "critical_options": {}, "extensions": {}}
    promised = Certificate.promised(without_options, authority, serial=read.serial)
    assert read == replace(promised, type="ssh-ed25519-cert-v01@openssh.com host certificate")
    assert read.serial != 0


def test_hosts_have_no_options(admin: Client, least: dict[str, Any]) -> None:
    field_names = (
        "description, metadata, ssh_certificate_authority_id, public_key, principals, valid_after, valid_until"
    )
    answer = admin.post(PATH, {**least, "critical_options": {}, "extensions": {}})
    assert_invalid(
        answer, dict.fromkeys(("critical_options", "extensions"), f"is not accepted here; accepted: {field_names}")
    )


def test_a_certificate_ends_after_it_starts(admin: Client, least: dict[str, Any]) -> None:
    assert_invalid(admin.post(PATH, {**least, "valid_after": "2130-01-01T00:00:00Z"}), {"valid_until": LATER})


def test_every_bad_field_is_named_as_for_users(admin: Client) -> None:
    body = {"ssh_certificate_authority_id": "x", "public_key": "x", "principals": [""], "valid_after": "x"}
    faults = {
        "ssh_certificate_authority_id": "must be an id of the form sshca_…",
        "public_key": "must be one line in OpenSSH authorized_keys form: <type> <base64> [comment]",
        "principals.0": "must not be empty or contain control characters",
        "valid_after": "must be an RFC 3339 time, for example 2026-01-31T12:00:00Z",
    }
    assert_invalid(admin.post(PATH, body), faults)
