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
INTACT = "must contain an undamaged rsa, ecdsa or ed25519 public key"
TIME = "must be an RFC 3339 time, for example 2026-01-31T12:00:00Z"
NO_SUCH_TIME = "must be a date and time that exist"
LATER = "must be after valid_after; the default is 24 hours after creation"
NAME = "must not be empty or contain control characters"
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
    """Return the smallest body that is accepted."""
    authority = admin.create("/ssh_certificate_authorities", {})
    return {"ssh_certificate_authority_id": authority["id"], "public_key": samples.public_key()}


def pack(*parts: bytes) -> str:
    """Strings as the SSH protocol packs them, in base64."""
    return base64.b64encode(b"".join(len(part).to_bytes(4) + part for part in parts)).decode()


def rsa_key(bits: int) -> str:
    return keys.authorized_key(rsa.generate_private_key(65537, bits).public_key())


def test_the_authority_and_the_public_key_are_required(admin: Client) -> None:
    errors = {"ssh_certificate_authority_id": "is required", "public_key": "is required"}
    assert_invalid(admin.post(PATH, {}), errors)


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
        *((rsa_key(bits), "must be an RSA key of 2048 to 8192 bits") for bits in (1024, 2040)),
        (f"{line} {'c' * 16 * 1024}", "must be at most 16384 bytes of UTF-8"),
        *((value, "must be a string in OpenSSH authorized_keys form") for value in (None, 1, [line])),
    ):
        assert_invalid(admin.post(PATH, {**least, "public_key": wrong}), {"public_key": rule})


AUTHORITY_ID = "must be an id of the form sshca_…"
LONG, STRING = "must be at most 255 bytes of UTF-8", "must be a string"
BEFORE_1970 = "must not be before 1970: certificates cannot express that"
UNKNOWN_OPTION = "is not accepted here; accepted: force-command, source-address"
CRITICAL = "is a critical option and has no effect as an extension: use critical_options"
NO_NETWORKS = [",", "10.0.0.0/8,", "10.0.0.0/8, ::1", "10.0.0.1/8", "10.0.0.0/33", "10.0.0/8", "10.0.0.0/255.0.0.0"]
NO_NETWORKS += ["10.0.0.0/0.255.255.255", "fe80::1%eth0", "!10.0.0.0/8", "*.example.com", "010.0.0.1", "١٠.0.0.0/8"]
NO_NETWORKS += [f"127.0.0.1/{'0' * 40}32"]  # which sshd cannot read

# The values of each field that are refused, each with the errors that name what is wrong with it.
REFUSED: dict[str, list[tuple[Any, dict[str, str]]]] = {
    "ssh_certificate_authority_id": [
        *((id, {"": AUTHORITY_ID}) for id in ("", "x", "sshca_", f"ca_{'0' * 27}", f"sshca_{'0' * 26}")),
        (f"sshca_{'0' * 27} ", {"": AUTHORITY_ID}),
        *((value, {"": STRING}) for value in (None, 1, [""])),
    ],
    "public_key": [
        *((line, {"": FORM}) for line in ("", " ", "ssh-ed25519", "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n")),
        ("no key", {"": INTACT}),
        ("ssh-ed25519 AAAA", {"": INTACT}),
        ("ssh-ed25519 " + pack(b"ssh-ed25519", b"short"), {"": INTACT}),
        ("ssh-ed25519 " + pack(b"ssh-ed25519", b"k" * 32, b"more"), {"": INTACT}),
        ("ssh-ed25519 " + pack(b"ssh-rsa", b"k" * 32), {"": INTACT}),
        ("ecdsa-sha2-nistp256 " + pack(b"ecdsa-sha2-nistp256", b"nistp256", b"\4" + b"\1" * 64), {"": INTACT}),
        ("ecdsa-sha2-nistp256 " + pack(b"ecdsa-sha2-nistp256", b"nistp384", b"\4" + b"\1" * 96), {"": INTACT}),
        ("ssh-rsa " + pack(b"ssh-rsa", b"\1\0\1", b"\0"), {"": INTACT}),
        ("ssh-ed448 " + pack(b"ssh-ed448", b"k" * 57), {"": INTACT}),
        (
            "sk-ssh-ed25519@openssh.com " + pack(b"sk-ssh-ed25519@openssh.com", b"k" * 32, b"ssh:"),
            {"": "must be an rsa, ecdsa or ed25519 key; security keys cannot be certified"},
        ),
        (
            "-----BEGIN OPENSSH PRIVATE KEY----- AAAA",
            {"": "must be a public key; this is a private key, which you should never share"},
        ),
        (DSA, {"": "must be an rsa, ecdsa or ed25519 key"}),
    ],
    "valid_after": [
        ("2030-01-31", {"": TIME}),
        ("2030-02-29T12:00:00Z", {"": NO_SUCH_TIME}),
        *((time, {"": BEFORE_1970}) for time in ("1969-12-31T23:59:59.999Z", "1970-01-01T00:30:00+01:00")),
    ],
    "valid_until": [
        ("2030-01-31T12:00:00Z ", {"": TIME}),
        ("9999-12-31T23:59:59-00:01", {"": NO_SUCH_TIME}),
        *((value, {"": "must be an RFC 3339 time as a string"}) for value in (0, 1893456000, 1.5, True)),
    ],
    "principals": [
        (["p"] * 257, {"": "must have at most 256 entries"}),
        (
            ["", "ok", "\0", "a\nb", "é" * 128, None, 1],
            {".0": NAME, ".2": NAME, ".3": NAME, ".4": LONG, ".5": STRING, ".6": STRING},
        ),
        *((value, {"": "must be an array"}) for value in ("", "x", 1, True)),
    ],
    "critical_options": [
        *(({name: ""}, {f".{name}": UNKNOWN_OPTION}) for name in ("verify-required", "force_command")),
        *(
            ({"force-command": value}, {".force-command": "must be a command without NUL characters, and not empty"})
            for value in ("", " \t", "a\0b")
        ),
        ({"force-command": None}, {".force-command": STRING}),
        ({"force-command": "c" * 16385}, {".force-command": "must be at most 16384 bytes of UTF-8"}),
        ({"source-address": ["::1"]}, {".source-address": STRING}),
        (
            {"source-address": "", "force-command": ""},
            {".force-command": "must be a command without NUL characters, and not empty", ".source-address": NETWORKS},
        ),
        *(({"source-address": addresses}, {".source-address": NETWORKS}) for addresses in NO_NETWORKS),
        *((value, {"": "must be an object"}) for value in ("", "x", 1, True, ["x"])),
    ],
    "extensions": [
        *((value, {"": "must be an object"}) for value in (["x"], "permit-pty")),
        *(({"permit-pty": value}, {".permit-pty": STRING}) for value in (None, True)),
        ({"": ""}, {".": NAME}),
        ({"a\tb": ""}, {".a\tb": NAME}),
        ({"n" * 256: ""}, {f".{'n' * 189}": LONG}),
        ({"a@b": "é" * 513}, {".a@b": "must be at most 1024 bytes of UTF-8"}),
        ({f"{number}@b": "" for number in range(33)}, {"": "must have at most 32 entries"}),
        (
            {"permit-pty": "", "force-command": "/bin/true", "source-address": "192.0.2.0/24", "verify-required": ""},
            {".force-command": CRITICAL, ".source-address": CRITICAL, ".verify-required": CRITICAL},
        ),
    ],
}


@pytest.mark.parametrize("field", REFUSED)
def test_a_value_that_breaks_a_rule_is_refused_and_the_rule_told(
    admin: Client, least: dict[str, Any], field: str
) -> None:
    least["valid_until"] = "2040-01-01T00:00:00Z"
    for value, errors in REFUSED[field]:
        answer = admin.post(PATH, {**least, field: value})
        assert_invalid(answer, {f"{field}{suffix}": rule for suffix, rule in errors.items()})


@pytest.mark.parametrize(
    "times",
    [
        {"valid_after": "2030-01-01T00:00:00Z", "valid_until": "2030-01-01T00:00:00Z"},
        {"valid_after": "2030-01-01T00:00:00.1Z", "valid_until": "2030-01-01T00:00:00.9Z"},
        {"valid_after": "2030-01-01T00:00:00+01:00", "valid_until": "2029-12-31T23:00:00Z"},
        {"valid_after": "2130-01-01T00:00:00Z"},
        {"valid_until": "2020-01-01T00:00:00Z"},
        {"valid_until": "1960-01-01T00:00:00Z"},
    ],
)
def test_a_certificate_ends_after_it_starts(admin: Client, least: dict[str, Any], times: dict[str, str]) -> None:
    assert_invalid(admin.post(PATH, {**least, **times}), {"valid_until": LATER})
