"""SSH user certificates (SPEC 2.4, 4.3): what is refused, and what each refusal says."""

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from chalicelib.crypto import keys
from tests import samples
from tests.refusals import assert_invalid
from tests.transports import Client

PATH = "/ssh_user_certificates"
FORM = "must be one line in OpenSSH authorized_keys form: <type> <base64> [comment]"
INTACT = "must hold an intact rsa, ecdsa or ed25519 public key"
TYPE = "must be an rsa, ecdsa or ed25519 key"
TIME = "must be an RFC 3339 time, for example 2026-01-31T12:00:00Z"
NO_SUCH_TIME = "must be a date and time that exist"
LATER = "must be after valid_after; unspecified it is 24 hours after creation"
NAME = "must not be empty nor hold control characters"
NETWORKS = "must be a comma-separated list of addresses or CIDR networks"
DSA = (  # which newer versions of ssh-keygen do not make any more
    "ssh-dss AAAAB3NzaC1kc3MAAACBALDMKxPoh+d0ckWL4wypyIpSVXondhVwZl2xEYZCV/Z7wJN9yRyf2kIrMZuOXPljBsLW3lybsHTtY1Si/Dwl"
    "OYOeplOPe8mXRlZo01PWGzOThbBmsifyw5Hh+x0hdP8kLspje/1ITmOPpDVq0LWTPUpkVRN27rxvKCumRe0czf1dAAAAFQDJF/M+HywKnRq9txwU"
    "t8LYeNpIlwAAAIEAoKdTncDaY8y+che/jxkXp2vUM9R+hlF8VOO16ETy2e49OxYLh2czdU3l1wzIk6I6Nv99VU8oxvNRvqeW78jrEESP3i/Zvu0W"
    "zsnX8eLI+U/7+/Tu+CK5Vvv0Qit0fAnljXniUumeWd5JHCL2v5Vwf0tC3KpikgFPns/Z38WVgAcAAACAKIbVZykkOoXuVH6HCUOlphJVwrGyqOlt"
    "ka7cSvxNXrSa5BVTFWhw9y+GRVbciBl7IdbpqnGB1kWsklP/JSBHRB4IaJeLJh87HcnxOVRJPKWRbCj6wr1k5G/VzFH7QdhCWdMaSHxkI/PaU0tF"
    "Al/41SHQ5FThxYB6JDunkvUvDWk="
)


@pytest.fixture
def least(admin: Client) -> dict[str, Any]:
    """The smallest body that is accepted."""
    authority = admin.create("/ssh_certificate_authorities", {})
    return {"ssh_certificate_authority_id": authority["id"], "public_key": samples.public_key()}


def packed(*parts: bytes) -> str:
    """Strings as the SSH protocol packs them, in base64."""
    return base64.b64encode(b"".join(len(part).to_bytes(4) + part for part in parts)).decode()


def rsa_key(bits: int) -> str:
    return keys.authorized_key(rsa.generate_private_key(65537, bits).public_key())


def test_the_authority_and_the_public_key_are_required(admin: Client) -> None:
    errors = {"ssh_certificate_authority_id": "is required", "public_key": "is required"}
    assert_invalid(admin.post(PATH, {}), errors)


def test_an_authority_is_named_by_an_id_of_its_form(admin: Client, least: dict[str, Any]) -> None:
    field, rule = "ssh_certificate_authority_id", "must be an id of the form sshca_…"
    for id in ("", "x", "sshca_", f"ca_{'0' * 27}", f"sshca_{'0' * 26}", f"sshca_{'0' * 27} "):
        assert_invalid(admin.post(PATH, {**least, field: id}), {field: rule})
    for value in (None, 1, [""]):
        assert_invalid(admin.post(PATH, {**least, field: value}), {field: "must be a string"})


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("", FORM),
        (" ", FORM),
        ("ssh-ed25519", FORM),
        ("no key", INTACT),
        ("ssh-ed25519 AAAA", INTACT),
        ("ssh-ed25519 " + packed(b"ssh-ed25519", b"short"), INTACT),
        ("ssh-ed25519 " + packed(b"ssh-ed25519", b"k" * 32, b"more"), INTACT),
        ("ssh-ed25519 " + packed(b"ssh-rsa", b"k" * 32), INTACT),
        ("ecdsa-sha2-nistp256 " + packed(b"ecdsa-sha2-nistp256", b"nistp256", b"\4" + b"\1" * 64), INTACT),
        ("ecdsa-sha2-nistp256 " + packed(b"ecdsa-sha2-nistp256", b"nistp384", b"\4" + b"\1" * 96), INTACT),
        ("ssh-rsa " + packed(b"ssh-rsa", b"\1\0\1", b"\0"), INTACT),
        ("ssh-ed448 " + packed(b"ssh-ed448", b"k" * 57), INTACT),
        (
            "sk-ssh-ed25519@openssh.com " + packed(b"sk-ssh-ed25519@openssh.com", b"k" * 32, b"ssh:"),
            "must be an rsa, ecdsa or ed25519 key; security keys cannot be certified",
        ),
        ("-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----\n", FORM),
        (
            "-----BEGIN OPENSSH PRIVATE KEY----- AAAA",
            "must be a public key; this is a private one, which nobody else should ever see",
        ),
        (DSA, TYPE),
    ],
)
def test_a_public_key_that_cannot_be_certified_is_refused(
    admin: Client, least: dict[str, Any], line: str, rule: str
) -> None:
    assert_invalid(admin.post(PATH, {**least, "public_key": line}), {"public_key": rule})


def test_a_public_key_is_one_key_without_options_and_no_certificate(admin: Client, least: dict[str, Any]) -> None:
    line = least["public_key"]
    certificate = admin.create(PATH, least)["certificate"]
    for wrong, rule in (
        (f"{line}\n{line}", FORM),
        (f"{line}\r{line}", FORM),
        (f"# a comment\n{line}", FORM),
        (f"no-pty {line}", INTACT),
        (f'command="ls",no-pty {line}', INTACT),
        (line.replace("ssh-ed25519", "ssh-rsa", 1), INTACT),
        (line[:-8], INTACT),
        (certificate, "must be a plain public key, not a certificate"),
    ):
        assert_invalid(admin.post(PATH, {**least, "public_key": wrong}), {"public_key": rule})


def test_an_rsa_key_has_at_least_2048_bits(admin: Client, least: dict[str, Any]) -> None:
    for bits in (1024, 2040):
        answer = admin.post(PATH, {**least, "public_key": rsa_key(bits)})
        assert_invalid(answer, {"public_key": "must be an RSA key of 2048 to 16384 bits"})
    assert admin.create(PATH, {**least, "public_key": rsa_key(2048)})["key_type"] == "rsa"


def test_a_public_key_is_a_string_of_ordinary_size(admin: Client, least: dict[str, Any]) -> None:
    for value in (None, 1, [least["public_key"]]):
        answer = admin.post(PATH, {**least, "public_key": value})
        assert_invalid(answer, {"public_key": "must be a string in OpenSSH authorized_keys form"})
    answer = admin.post(PATH, {**least, "public_key": f"{least['public_key']} {'c' * 16 * 1024}"})
    assert_invalid(answer, {"public_key": "must be at most 16384 bytes of UTF-8"})


@pytest.mark.parametrize(
    ("time", "rule"),
    [
        ("tomorrow", TIME),
        ("2030-01-31", TIME),
        ("2030-01-31T12:00:00", TIME),
        ("2030-01-31T12:00Z", TIME),
        ("20300131T120000Z", TIME),
        ("2030-01-31T12:00:00,5Z", TIME),
        ("2030-01-31T12:00:00+0100", TIME),
        ("2030-01-31T12:00:00Z ", TIME),
        ("٢٠٣٠-01-31T12:00:00Z", TIME),
        ("12030-01-31T12:00:00Z", TIME),
        ("2030-02-29T12:00:00Z", NO_SUCH_TIME),
        ("2030-13-01T12:00:00Z", NO_SUCH_TIME),
        ("2030-01-31T24:00:00Z", TIME),
        ("2030-01-31T25:00:00Z", NO_SUCH_TIME),
        ("2016-12-31T23:59:60Z", NO_SUCH_TIME),
        ("2030-01-31T12:00:00+24:00", NO_SUCH_TIME),
        ("0000-01-01T00:00:00Z", NO_SUCH_TIME),
        ("0001-01-01T00:00:00+01:00", NO_SUCH_TIME),
        ("9999-12-31T23:59:59-00:01", NO_SUCH_TIME),
    ],
)
def test_a_time_is_written_as_rfc_3339_says_and_exists(
    admin: Client, least: dict[str, Any], time: str, rule: str
) -> None:
    request = {**least, "valid_after": time, "valid_until": "2040-01-01T00:00:00Z"}
    assert_invalid(admin.post(PATH, request), {"valid_after": rule})
    assert_invalid(admin.post(PATH, {**least, "valid_until": time}), {"valid_until": rule})


def test_a_time_is_a_string(admin: Client, least: dict[str, Any]) -> None:
    value: Any
    for value in (0, 1893456000, 1.5, True, False, [], {}):
        answer = admin.post(PATH, {**least, "valid_until": value})
        assert_invalid(answer, {"valid_until": "must be an RFC 3339 time, as a string"})


@pytest.mark.parametrize(
    "time", ["1969-12-31T23:59:59Z", "1969-12-31T23:59:59.999Z", "1970-01-01T00:30:00+01:00", "0001-01-01T00:00:00Z"]
)
def test_no_certificate_is_valid_before_1970(admin: Client, least: dict[str, Any], time: str) -> None:
    answer = admin.post(PATH, {**least, "valid_after": time, "valid_until": "2040-01-01T00:00:00Z"})
    assert_invalid(answer, {"valid_after": "must not be before 1970, which certificates cannot express"})


@pytest.mark.parametrize(
    "times",
    [
        {"valid_after": "2030-01-01T00:00:00Z", "valid_until": "2030-01-01T00:00:00Z"},
        {"valid_after": "2030-01-01T00:00:00.1Z", "valid_until": "2030-01-01T00:00:00.9Z"},
        {"valid_after": "2030-01-01T00:00:00Z", "valid_until": "2029-12-31T23:59:59Z"},
        {"valid_after": "2030-01-01T00:00:00+01:00", "valid_until": "2029-12-31T23:00:00Z"},
        {"valid_after": "2130-01-01T00:00:00Z"},
        {"valid_until": "2020-01-01T00:00:00Z"},
        {"valid_until": "1960-01-01T00:00:00Z"},
    ],
)
def test_a_certificate_ends_after_it_starts(admin: Client, least: dict[str, Any], times: dict[str, str]) -> None:
    assert_invalid(admin.post(PATH, {**least, **times}), {"valid_until": LATER})


def test_a_certificate_has_at_most_256_principals(admin: Client, least: dict[str, Any]) -> None:
    answer = admin.post(PATH, {**least, "principals": ["p"] * 257})
    assert_invalid(answer, {"principals": "must have at most 256 entries"})


def test_every_bad_principal_is_named_by_its_place(admin: Client, least: dict[str, Any]) -> None:
    answer = admin.post(PATH, {**least, "principals": ["", "ok", "\0", "a\nb", "é" * 128, None, 1]})
    long, string = "must be at most 255 bytes of UTF-8", "must be a string"
    rules = {0: NAME, 2: NAME, 3: NAME, 4: long, 5: string, 6: string}
    assert_invalid(answer, {f"principals.{place}": rule for place, rule in rules.items()})


@pytest.mark.parametrize(
    ("options", "errors"),
    [
        ({"verify-required": ""}, {"verify-required": "is not a field here; known: force-command, source-address"}),
        ({"force_command": "ls"}, {"force_command": "is not a field here; known: force-command, source-address"}),
        ({"force-command": ""}, {"force-command": "must be a command"}),
        ({"force-command": " \t"}, {"force-command": "must be a command"}),
        ({"force-command": "a\0b"}, {"force-command": "must be a command"}),
        ({"force-command": None}, {"force-command": "must be a string"}),
        ({"force-command": "c" * 16385}, {"force-command": "must be at most 16384 bytes of UTF-8"}),
        ({"source-address": ["::1"]}, {"source-address": "must be a string"}),
        (
            {"source-address": "", "force-command": ""},
            {"force-command": "must be a command", "source-address": NETWORKS},
        ),
    ],
)
def test_a_critical_option_that_no_server_would_keep_is_refused(
    admin: Client, least: dict[str, Any], options: dict[str, Any], errors: dict[str, str]
) -> None:
    answer = admin.post(PATH, {**least, "critical_options": options})
    assert_invalid(answer, {f"critical_options.{name}": rule for name, rule in errors.items()})


@pytest.mark.parametrize(
    "addresses",
    [
        "",
        ",",
        "10.0.0.0/8,",
        "10.0.0.0/8, ::1",
        "10.0.0.1/8",
        "10.0.0.0/33",
        "10.0.0/8",
        "10.0.0.0/255.0.0.0",
        "10.0.0.0/0.255.255.255",
        "fe80::1%eth0",
        "!10.0.0.0/8",
        "*.example.com",
        "010.0.0.1",
        "١٠.0.0.0/8",
    ],
)
def test_a_source_address_that_names_no_networks_is_refused(
    admin: Client, least: dict[str, Any], addresses: str
) -> None:
    answer = admin.post(PATH, {**least, "critical_options": {"source-address": addresses}})
    assert_invalid(answer, {"critical_options.source-address": NETWORKS})


@pytest.mark.parametrize(
    ("extensions", "errors"),
    [
        ([], {"extensions": "must be an object"}),
        ("permit-pty", {"extensions": "must be an object"}),
        ({"permit-pty": None}, {"extensions.permit-pty": "must be a string"}),
        ({"permit-pty": True}, {"extensions.permit-pty": "must be a string"}),
        ({"": ""}, {"extensions.": NAME}),
        ({"a\tb": ""}, {"extensions.a\tb": NAME}),
        ({"n" * 256: ""}, {f"extensions.{'n' * 189}": "must be at most 255 bytes of UTF-8"}),
        ({"a@b": "é" * 513}, {"extensions.a@b": "must be at most 1024 bytes of UTF-8"}),
        ({f"{place}@b": "" for place in range(33)}, {"extensions": "must have at most 32 entries"}),
    ],
)
def test_extensions_are_names_and_texts(
    admin: Client, least: dict[str, Any], extensions: object, errors: dict[str, str]
) -> None:
    assert_invalid(admin.post(PATH, {**least, "extensions": extensions}), errors)


def test_a_critical_option_is_no_extension(admin: Client, least: dict[str, Any]) -> None:
    options = {"force-command": "/bin/true", "source-address": "192.0.2.0/24", "verify-required": ""}
    rule = "is a critical option: as an extension it would be signed and mean nothing"
    answer = admin.post(PATH, {**least, "extensions": {"permit-pty": "", **options}})
    assert_invalid(answer, {f"extensions.{name}": rule for name in options})


@pytest.mark.parametrize("field", ["principals", "critical_options"])
def test_collections_are_of_their_kind(admin: Client, least: dict[str, Any], field: str) -> None:
    rule = {"principals": "must be an array", "critical_options": "must be an object"}[field]
    value: Any
    for value in ("", "x", 1, True, {} if field == "principals" else []):
        assert_invalid(admin.post(PATH, {**least, field: value}), {field: rule})
