"""Public keys in every form and their fingerprints; ssh-keygen makes the keys and judges what we say of them."""

import base64
import hashlib
import subprocess
import textwrap
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, rsa
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.crypto import keys, public_keys
from tests.needs import need

KINDS = ["rsa-2048", "ecdsa-256", "ecdsa-384", "ecdsa-521", "ed25519-256"]
SECURITY_KINDS = ["sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com"]
TYPES = "ssh-rsa, ecdsa-sha2-nistp256, ecdsa-sha2-nistp384, ecdsa-sha2-nistp521, ssh-ed25519"
NO_TYPE = f"must be PEM or start with the type of the key: {TYPES}, {', '.join(SECURITY_KINDS)}"
DAMAGED = "must contain one undamaged public key"
SSH_DAMAGED = "must contain an undamaged rsa, ecdsa or ed25519 public key"
NOTHING_ELSE = "must be exactly one public key: PEM (BEGIN PUBLIC KEY) or OpenSSH authorized_keys form"
PRIVATE = "must be a public key; this is a private key, which you should never share"


def keygen(*arguments: object) -> str:
    need("ssh")
    command = ["ssh-keygen", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout


def read_fingerprint(path: Path) -> str:
    """Return the fingerprint that ssh-keygen -l prints."""
    return keygen("-l", "-f", path).split()[1]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a key pair of every kind, and one that is too short."""
    directory = tmp_path_factory.mktemp("keys")
    for kind in [*KINDS, "rsa-2047"]:
        name, bits = kind.split("-")
        keygen("-q", "-t", name, "-b", bits, "-N", "", "-C", "made for a test", "-f", directory / kind)
    return directory


def string(content: bytes | str) -> bytes:
    raw = content.encode() if isinstance(content, str) else content
    return len(raw).to_bytes(4) + raw


def line(name: str, *strings: bytes | str) -> str:
    """Return an authorized_keys line from the strings of its wire form."""
    return f"{name} {base64.b64encode(b''.join(map(string, (name, *strings)))).decode()}"


def security_key(name: str, application: str) -> str:
    """Return a public key in the form of a security key's, made without one."""
    if "ed25519" in name:
        raw = keys.generate_ed25519().public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return line(name, raw, application)
    point = keys.generate_ecdsa("nistp256").public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return line(name, "nistp256", point, application)


def pem(key: PublicKeyTypes) -> str:
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def read_error(text: str) -> str:
    with pytest.raises(ValueError, match=r"^must ") as error:
        public_keys.fingerprint(text)
    return str(error.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["PEM", "PKCS8", "RFC4716"])
def test_a_key_has_the_same_fingerprint_in_all_its_forms(folder: Path, kind: str, form: str) -> None:
    if kind.startswith("ed25519") and form != "RFC4716":  # ssh-keygen does not write it
        text = pem(load_ssh_public_key((folder / f"{kind}.pub").read_bytes()))
    else:
        text = keygen("-e", "-m", form, "-f", folder / kind)
    fingerprint = read_fingerprint(folder / kind)
    for spelling in (
        (folder / f"{kind}.pub").read_text(),
        text,
        f"\n {text.strip()}  \r\n",
        text.replace("\n", "\r\n"),
    ):
        assert public_keys.fingerprint(spelling) == fingerprint


def test_the_bytes_of_a_fingerprint_are_the_hash_of_the_key(folder: Path) -> None:
    blob = base64.b64decode((folder / "rsa-2048.pub").read_text().split()[1])
    assert public_keys.digest(read_fingerprint(folder / "rsa-2048")) == hashlib.sha256(blob).digest()
    for wrong in (
        "",
        "SHA256:",
        "SHA256:AAAA",
        read_fingerprint(folder / "rsa-2048")[7:],
        f"SHA256:{'A' * 42}!",
        f"MD5:{'A' * 43}",
    ):
        with pytest.raises(ValueError, match=r"."):
            public_keys.digest(wrong)


def test_a_comment_is_no_part_of_the_key(folder: Path) -> None:
    name, encoded, *_ = (folder / "rsa-2048.pub").read_text().split()
    fingerprint = read_fingerprint(folder / "rsa-2048")
    for comment in ("", " ", "\tone", " two words", " ssh-rsa", " -----BEGIN PRIVATE KEY-----", " größer"):
        assert public_keys.fingerprint(f"{name} \t{encoded}{comment}") == fingerprint


def test_headers_of_rfc_4716_are_no_part_of_the_key(folder: Path) -> None:
    begin, _, *lines = keygen("-e", "-m", "RFC4716", "-f", folder / "rsa-2048").splitlines()
    headers = ["Subject: me", "x-long: this goes on \\", "and on: \\", "and AAAA", 'Comment: "c"']
    assert public_keys.fingerprint("\n".join([begin, *headers, *lines])) == read_fingerprint(folder / "rsa-2048")


@pytest.mark.parametrize("name", SECURITY_KINDS)
def test_the_application_is_part_of_a_security_key(tmp_path: Path, name: str) -> None:
    text = security_key(name, "ssh:")
    other = line(name, *_strings(text)[1:-1], "ssh:work")
    for count, key in enumerate((text, other)):
        (tmp_path / f"{count}.pub").write_text(f"{key} comment\n")
        assert public_keys.fingerprint(f"{key} comment") == read_fingerprint(tmp_path / f"{count}.pub")
    assert public_keys.fingerprint(text) != public_keys.fingerprint(other)
    wire = base64.b64decode(text.split()[1])
    rfc4716 = "\n".join(["---- BEGIN SSH2 PUBLIC KEY ----", *textwrap.wrap(text.split()[1], 70)])
    assert public_keys.fingerprint(f"{rfc4716}\n---- END SSH2 PUBLIC KEY ----") == public_keys.fingerprint_of(wire)


def test_zeros_before_a_number_do_not_make_another_key(folder: Path) -> None:
    name, exponent, modulus = _strings((folder / "rsa-2048.pub").read_text())
    padded = line(name.decode(), b"\0\0" + exponent, b"\0" + modulus)
    assert public_keys.fingerprint(padded) == read_fingerprint(folder / "rsa-2048")


def test_a_gateway_gets_the_fingerprint_from_the_key_on_the_wire(folder: Path) -> None:
    wire = base64.b64decode((folder / "ecdsa-256.pub").read_text().split()[1])
    assert public_keys.fingerprint_of(wire) == read_fingerprint(folder / "ecdsa-256")


def test_a_private_key_is_refused_without_repeating_it(folder: Path, tmp_path: Path) -> None:
    openssh = (folder / "ecdsa-256").read_text()
    pkcs8 = tmp_path / "pkcs8"
    pkcs8.write_text(openssh)
    pkcs8.chmod(0o600)
    keygen("-p", "-m", "PKCS8", "-N", "", "-P", "", "-q", "-f", pkcs8)
    for text in (openssh, pkcs8.read_text(), openssh + (folder / "ecdsa-256.pub").read_text()):
        assert read_error(text) == PRIVATE


def test_a_certificate_is_refused(folder: Path) -> None:
    keygen("-q", "-s", folder / "ed25519-256", "-I", "id", folder / "ecdsa-384.pub")
    path = folder / "ecdsa-384-cert.pub"
    assert read_error(path.read_text()) == "must be a plain public key, not a certificate"


def test_weak_and_foreign_keys_are_refused(folder: Path) -> None:
    short = "must be an RSA key of 2048 to 16384 bits"
    assert read_error((folder / "rsa-2047.pub").read_text()) == short
    assert read_error(keygen("-e", "-m", "PEM", "-f", folder / "rsa-2047")) == short
    assert read_error(pem(dsa.generate_private_key(1024).public_key())) == "must be an rsa, ecdsa or ed25519 key"
    assert read_error(pem(ed448.Ed448PrivateKey.generate().public_key())) == "must be an rsa, ecdsa or ed25519 key"
    koblitz = ec.generate_private_key(ec.SECP256K1()).public_key()
    assert read_error(pem(koblitz)) == "must be an ECDSA key on one of the curves nistp256, nistp384, nistp521"
    assert read_error(line("ssh-dss", b"\1", b"\1", b"\1", b"\1")) == NO_TYPE
    assert read_error(line("ssh-ed448", bytes(57))) == NO_TYPE


def test_a_key_stands_alone(folder: Path) -> None:
    line, rsa_pem = ((folder / "ed25519-256.pub").read_text(), keygen("-e", "-m", "PEM", "-f", folder / "rsa-2048"))
    assert read_error(line + (folder / "rsa-2048.pub").read_text()) == "must be one public key: a single line, or PEM"
    assert read_error(rsa_pem + rsa_pem) == NOTHING_ELSE
    assert read_error(f"text\n{rsa_pem}") == "must be one public key: a single line, or PEM"
    assert read_error(f"{rsa_pem}text") == NOTHING_ELSE
    assert read_error("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----") == NOTHING_ELSE


@pytest.mark.parametrize("options", ["restrict", 'command="ls -l"', 'from="192.0.2.1",no-pty'])
def test_options_before_a_key_are_refused(folder: Path, options: str) -> None:
    sentence = "must start with the type of the key, without options before it"
    assert read_error(f"{options} {(folder / 'ed25519-256.pub').read_text()}") == sentence


@pytest.mark.parametrize(
    "text", ["", " ", "hello", "AAAA", "ssh-rsa\u00a0AAAA", "-", "---- BEGIN SSH2 PUBLIC KEY ----"]
)
def test_what_is_no_key_at_all_is_refused(text: str) -> None:
    assert read_error(text) in (NO_TYPE, NOTHING_ELSE)


def test_damaged_keys_are_refused(folder: Path) -> None:
    name, encoded, *_ = (folder / "ecdsa-256.pub").read_text().split()
    compressed = keys.generate_ecdsa("nistp256").public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    assert read_error(name) == SSH_DAMAGED
    assert read_error(f"{name} {encoded[:-1]}") == DAMAGED
    assert read_error(f"{name} {encoded[:40]}!{encoded[40:]}") == DAMAGED
    assert read_error(f"{name} {encoded[:-8]}") == SSH_DAMAGED
    assert read_error(f"ssh-rsa {encoded}") == SSH_DAMAGED
    assert read_error(line("ecdsa-sha2-nistp256", "nistp256", b"\4" + bytes(64))) == SSH_DAMAGED
    assert read_error(line("ecdsa-sha2-nistp256", "nistp256", compressed)) == SSH_DAMAGED
    with pytest.raises(ValueError, match=f"^{SSH_DAMAGED}$"):
        keys.parse_authorized_key(line("ecdsa-sha2-nistp256", "nistp256", compressed))
    assert read_error(line("ssh-ed25519", bytes(31))) == SSH_DAMAGED
    assert read_error(line("ssh-ed25519", bytes(32), "more")) == SSH_DAMAGED
    assert read_error(line("sk-ssh-ed25519@openssh.com", bytes(32))) == SSH_DAMAGED
    lines = keygen("-e", "-m", "PKCS8", "-f", folder / "ecdsa-256").splitlines()
    assert read_error("\n".join([lines[0], *lines[2:]])) == DAMAGED
    assert read_error("\n".join([*lines[:-1], "-----END RSA PUBLIC KEY-----"])) == DAMAGED


def test_a_key_that_is_too_long_for_openssh_is_refused() -> None:
    numbers = rsa.RSAPublicNumbers(65537, (1 << 16384) + 1)
    assert read_error(pem(numbers.public_key())) == "must be an RSA key of 2048 to 16384 bits"


@given(st.data())
def test_whatever_is_sent_is_a_key_or_refused_in_a_sentence(folder: Path, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["ecdsa-256", "ed25519-256"]))
    plain = (folder / f"{kind}.pub").read_text()
    original = data.draw(st.sampled_from([plain, pem(load_ssh_public_key(plain.encode())), ""]))
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(original))] * 2)))
    text = original[:start] + data.draw(st.text(max_size=20)) + original[end:]
    try:
        assert public_keys.fingerprint(text).startswith("SHA256:")
    except ValueError as error:
        assert str(error).startswith("must ")  # noqa: PT017


def _strings(text: str) -> list[bytes]:
    """Return the strings in the wire form of a line."""
    wire, strings = base64.b64decode(text.split()[1]), []
    while wire:
        size = int.from_bytes(wire[:4])
        strings.append(wire[4 : 4 + size])
        wire = wire[4 + size :]
    return strings
