"""SSH user certificates (SPEC 2.4, 4.3): what is made of a request. `ssh-keygen` is the judge."""

from datetime import timedelta
from typing import Any

import pytest

from chalicelib import clock, ids
from tests import samples
from tests.live.ssh import keygen
from tests.live.ssh.keygen import Certificate
from tests.transports import Client, key_in

PATH = "/ssh_user_certificates"
AUTHORITIES = "/ssh_certificate_authorities"
KEYS = {
    "ed25519": ("ed25519", 256),
    "ecdsa": ("ecdsa", 256),
    "nistp384": ("ecdsa", 384),
    "nistp521": ("ecdsa", 521),
    "rsa": ("rsa", 2048),
}


@pytest.fixture(scope="module")
def public_keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("keys")
    return {name: keygen.generate(folder / name, kind, bits).public for name, (kind, bits) in KEYS.items()}


@pytest.fixture
def authority(admin: Client) -> Any:
    return admin.create(AUTHORITIES, {})


@pytest.fixture
def least(authority: Any) -> dict[str, Any]:
    """Return the smallest body that is accepted."""
    return {"ssh_certificate_authority_id": authority["id"], "public_key": samples.public_key()}


def test_what_is_not_specified_has_its_default(admin: Client, least: dict[str, Any]) -> None:
    certificate = admin.create(PATH, {**least, "extensions": {}})
    until = clock.parse(certificate["created_at"]) + timedelta(hours=24)
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
        "critical_options": {},
        "extensions": {"permit-pty": "", "permit-user-rc": ""},
        "valid_after": certificate["created_at"],
        "valid_until": clock.rfc3339(until),
        "certificate": certificate["certificate"],
    }
    assert Certificate.of(certificate["certificate"]).extensions == certificate["extensions"]


KEPT: list[dict[str, Any]] = [
    {"extensions": {"permit-user-rc": ""}},
    *({"principals": principals} for principals in (["b", "a", "c"], ["same", "same"], ["a,b", "x y", "ünï"])),
    {"principals": [f"{number:03}".ljust(255, "p") for number in range(256)]},
    *(
        {"critical_options": {"source-address": addresses}}
        for addresses in ("192.0.2.1", "2001:db8::/32,10.0.0.0/8", "::1/128", "0.0.0.0/0,::/0")
    ),
]


def test_what_is_asked_for_is_shown_and_signed_as_it_is(admin: Client, authority: Any, least: dict[str, Any]) -> None:
    for fields in KEPT:
        certificate = admin.create(PATH, {**least, **fields})
        assert {name: certificate[name] for name in fields} == fields
        read = Certificate.of(certificate["certificate"])
        assert read == Certificate.promised(certificate, authority, serial=read.serial)


def test_times_are_shown_in_utc_and_whole_seconds(admin: Client, least: dict[str, Any]) -> None:
    times = {"valid_after": "2030-01-31T12:00:00+05:30", "valid_until": "2032-02-29T00:00:00.1+23:59"}
    certificate = admin.create(PATH, {**least, **times})
    assert (certificate["valid_after"], certificate["valid_until"]) == ("2030-01-31T06:30:00Z", "2032-02-28T00:01:00Z")
    longest = {"valid_after": "1970-01-01T00:00:00Z", "valid_until": "9999-12-31T23:59:59Z"}
    certificate = admin.create(PATH, {**least, **longest})
    assert {name: certificate[name] for name in longest} == longest


@pytest.mark.parametrize("authority_type", ["ed25519", "ecdsa", "rsa"])
def test_authorities_of_every_type_sign_keys_of_every_type(
    admin: Client, public_keys: dict[str, str], authority_type: str
) -> None:
    size = {"key_size": 2048} if authority_type == "rsa" else {}
    authority = admin.create(AUTHORITIES, {"private_key_type": authority_type, **size})
    for name, (key_type, _) in KEYS.items():
        request = {"ssh_certificate_authority_id": authority["id"], "public_key": public_keys[name]}
        certificate = admin.create(PATH, request)
        read = Certificate.of(certificate["certificate"])
        assert certificate["key_type"] == key_type
        assert read.serial != 0
        assert read == Certificate.promised(certificate, authority, serial=read.serial)


def test_a_certificate_is_one_line_whose_comment_is_the_id(admin: Client, least: dict[str, Any]) -> None:
    certificate = admin.create(PATH, least)
    kind, _, comment = certificate["certificate"].split(" ")
    assert (kind, comment) == ("ssh-ed25519-cert-v01@openssh.com", certificate["id"])


def test_two_certificates_for_the_same_body_differ(admin: Client, least: dict[str, Any]) -> None:
    first, other = admin.create(PATH, least), admin.create(PATH, least)
    assert Certificate.of(first["certificate"]).serial != Certificate.of(other["certificate"]).serial
    assert first["certificate"].split()[1] != other["certificate"].split()[1]


def test_the_public_key_is_echoed_as_it_was_sent(admin: Client, least: dict[str, Any]) -> None:
    for form in ("{}\n", "{} ann@laptop", "  {}\tgrüße aus Köln 🦊 \r\n"):
        line = form.format(least["public_key"])
        certificate = admin.create(PATH, {**least, "public_key": line})
        assert certificate["public_key"] == line
        assert admin.get(f"{PATH}/{certificate['id']}").json == certificate


def test_the_largest_certificate_there_can_be_is_kept_whole(admin: Client, least: dict[str, Any]) -> None:
    request = {
        **least,
        "public_key": least["public_key"] + " " + "c" * (16 * 1024 - len(least["public_key"]) - 1),
        "principals": [f"{number:03}".ljust(255, "p") for number in range(256)],
        "critical_options": {"force-command": "c" * 16 * 1024, "source-address": ",".join(["192.0.2.0/24"] * 315)},
        "extensions": {f"{number:02}@example.com".ljust(255, "x"): "v" * 1024 for number in range(32)},
        "description": "d" * 255,
        "metadata": "m" * 4096,
    }
    certificate = admin.create(PATH, request)
    assert {name: certificate[name] for name in request} == request
    assert admin.get(f"{PATH}/{certificate['id']}").json == certificate


@pytest.mark.parametrize("path", [PATH, "/ssh_host_certificates"])
def test_the_authority_is_one_of_the_account(admin: Client, stranger: Client, least: dict[str, Any], path: str) -> None:
    field, rule = "ssh_certificate_authority_id", f"must be an id listed at {AUTHORITIES}"
    for id in (stranger.create(AUTHORITIES, {})["id"], ids.new("sshca")):
        answer = admin.post(path, {**least, field: id})
        assert (answer.status, answer.json["error_code"]) == (400, "unknown_reference")
        assert answer.json["details"][field] == rule
    assert admin.get(path).json[path[1:]] == []
