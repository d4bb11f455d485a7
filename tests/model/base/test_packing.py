"""Texts that are stored as bytes: each is shown to the letter as it was, and what its bytes do not say stays a text."""

import base64
from datetime import UTC, datetime

import pytest

from chalicelib import crypto
from chalicelib.crypto import keys, ssh_certificates
from chalicelib.crypto.keys import PrivateKey
from chalicelib.crypto.ssh_certificates import HostCertificate
from chalicelib.model.base.packing import CERTIFICATES, SSH_LINE
from tests.keypairs import RSA

ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICE76PyKreKa3fZKCU+YkDeeA43fsaBrSnAN3X3USDRA"


@pytest.mark.parametrize("line", [ED25519, f"{ED25519} alice@laptop", f"{ED25519} of  Älice ", f"{ED25519} "])
def test_a_line_of_a_key_is_stored_without_its_base64(line: str) -> None:
    packed = SSH_LINE.pack(line)
    assert isinstance(packed, bytes)
    assert len(packed) == 51 + len(line.encode()) - len(ED25519)
    assert SSH_LINE.unpack(packed) == line


@pytest.mark.parametrize(
    "line",
    [
        "",
        "ssh-ed25519",
        "ssh-ed25519 AAAA",
        f" {ED25519}",
        f"{ED25519}\n",
        ED25519.replace(" ", "\t"),
        ED25519.replace("ssh-ed25519", "ssh-rsa"),
        "sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29t",
        "ssh-ed25519-cert-v01@openssh.com AAAA",
    ],
)
def test_a_line_that_its_bytes_would_not_say_is_stored_as_it_is(line: str) -> None:
    assert SSH_LINE.pack(line) == line
    assert SSH_LINE.unpack(line) == line


def test_a_chain_is_stored_as_its_certificates() -> None:
    blocks = [bytes([0x30, 0x82, 1, 44]) + bytes(300), bytes([0x30, 0x81, 128]) + bytes(128)]
    chain = "".join(crypto.pem.encode("CERTIFICATE", block) for block in blocks)
    assert CERTIFICATES.pack(chain) == b"".join(blocks)
    assert CERTIFICATES.unpack(b"".join(blocks)) == chain


@pytest.mark.parametrize(
    "text", ["", "no PEM", "-----BEGIN", *(crypto.pem.encode("CERTIFICATE", der) for der in (b"\x30", b"\x30\x01\x00"))]
)
def test_a_text_that_is_no_chain_is_stored_as_it_is(text: str) -> None:
    assert CERTIFICATES.unpack(CERTIFICATES.pack(text)) == text


KEYS: dict[str, PrivateKey] = {
    "rsa": RSA,
    "ed25519": keys.generate_ed25519(),
    **{curve: keys.generate_ecdsa(curve) for curve in ("nistp256", "nistp384", "nistp521")},
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_a_certificate_is_stored_without_its_base64_and_its_key_id_once(key: PrivateKey) -> None:
    start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    host = HostCertificate("shcrt_1", 2**64 - 1, key.public_key(), ["a.example"], start, end)
    line = ssh_certificates.sign(host, KEYS["ed25519"])
    packed = SSH_LINE.pack(line)
    assert packed == base64.b64decode(line.split()[1])
    assert SSH_LINE.unpack(packed) == line
    assert SSH_LINE.pack(f"{line}x") == f"{line}x"  # another comment
    plain = keys.authorized_key(key.public_key())
    assert SSH_LINE.unpack(SSH_LINE.pack(plain)) == plain
    assert isinstance(SSH_LINE.pack(plain), bytes)
