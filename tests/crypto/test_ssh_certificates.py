"""OpenSSH certificates of users and hosts, as other readers of their format see them."""

import base64
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.serialization import SSHCertificate, SSHCertificateType, load_ssh_public_identity

from chalicelib.crypto import keys, ssh_certificates
from chalicelib.crypto.keys import PrivateKey
from chalicelib.crypto.ssh_certificates import Certificate, HostCertificate, UserCertificate
from tests.keypairs import OTHER_RSA, RSA
from tests.live.ssh import keygen

AUTHORITIES: dict[str, PrivateKey] = {
    "rsa": RSA,
    "ecdsa": keys.generate_ecdsa("nistp256"),
    "ed25519": keys.generate_ed25519(),
}
CERTIFICATE = UserCertificate(
    key_id="sucrt_1",
    serial=2**64 - 1,
    public_key=keys.generate_ed25519().public_key(),
    principals=["zoe", "adam"],
    valid_after=datetime(1970, 1, 1, tzinfo=UTC),
    valid_until=datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
    critical_options={"source-address": "::/0", "force-command": "ls"},
    extensions={"permit-pty": "", "a@example.com": "value"},
)

HOST = HostCertificate(
    key_id="shcrt_1",
    serial=7,
    public_key=OTHER_RSA.public_key(),
    principals=["db.example.com", "2001:db8::1"],
    valid_after=datetime(2026, 1, 1, tzinfo=UTC),
    valid_until=datetime(2027, 1, 1, 12, 30, 1, tzinfo=UTC),
)


def sign(certificate: Certificate, authority: PrivateKey) -> SSHCertificate:
    line = ssh_certificates.sign(certificate, authority)
    assert line.endswith(f" {certificate.key_id}")
    read = load_ssh_public_identity(line.encode())
    assert isinstance(read, SSHCertificate)
    return read


@pytest.mark.parametrize("authority", AUTHORITIES.values(), ids=AUTHORITIES)
def test_everything_that_is_vouched_for_is_in_the_certificate(authority: PrivateKey) -> None:
    read = sign(CERTIFICATE, authority)
    read.verify_cert_signature()
    assert read.signature_key() == authority.public_key()
    assert read.type == SSHCertificateType.USER
    assert (read.key_id, read.serial) == (b"sucrt_1", 2**64 - 1)
    assert read.public_key() == CERTIFICATE.public_key
    assert read.valid_principals == [b"zoe", b"adam"]
    assert read.valid_after == 0
    assert datetime.fromtimestamp(read.valid_before, UTC) == CERTIFICATE.valid_until
    assert read.critical_options == {b"force-command": b"ls", b"source-address": b"::/0"}
    assert read.extensions == {b"a@example.com": b"value", b"permit-pty": b""}


@pytest.mark.parametrize("authority", AUTHORITIES.values(), ids=AUTHORITIES)
def test_a_host_is_vouched_for_by_its_names_alone(authority: PrivateKey) -> None:
    line, key_line = ssh_certificates.sign(HOST, authority), keys.authorized_key(HOST.public_key)
    ca = keygen.Fingerprint.of(keys.authorized_key(authority.public_key()))
    read = keygen.Certificate.of(line)
    assert sign(HOST, authority).type == SSHCertificateType.HOST
    assert read == keygen.Certificate(
        type="ssh-rsa-cert-v01@openssh.com host certificate",
        public_key=f"RSA-CERT {keygen.Fingerprint.of(key_line).sha256}",
        signing_ca=read.signing_ca,
        key_id="shcrt_1",
        serial=7,
        valid="from 2026-01-01T00:00:00 to 2027-01-01T12:30:01",
        principals=["db.example.com", "2001:db8::1"],
        critical_options={},
        extensions={},
    )
    assert ca.sha256 in read.signing_ca


def test_rsa_authorities_sign_with_sha_512() -> None:
    line = ssh_certificates.sign(CERTIFICATE, AUTHORITIES["rsa"])
    assert b"rsa-sha2-512" in base64.b64decode(line.split()[1])


def test_no_principals_are_any_user() -> None:
    assert sign(replace(CERTIFICATE, principals=[]), AUTHORITIES["ed25519"]).valid_principals == []


def test_what_the_format_cannot_hold_is_a_value_error() -> None:
    for wrong in (
        replace(CERTIFICATE, principals=["p"] * 257),
        replace(CERTIFICATE, valid_after=datetime(1969, 12, 31, tzinfo=UTC)),
        replace(
            CERTIFICATE, valid_after=datetime(2031, 1, 1, tzinfo=UTC), valid_until=datetime(2030, 1, 1, tzinfo=UTC)
        ),
        replace(CERTIFICATE, serial=2**64),
    ):
        with pytest.raises(ValueError, match=r"."):
            ssh_certificates.sign(wrong, AUTHORITIES["ed25519"])
