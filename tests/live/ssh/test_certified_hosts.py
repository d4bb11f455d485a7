"""Which hosts a real OpenSSH client believes, going by `@cert-authority` in its known_hosts and by our list."""

import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chalicelib.crypto import keys, krl, ssh_certificates
from chalicelib.crypto.keys import PrivateKey
from chalicelib.crypto.krl import Revoked
from chalicelib.crypto.ssh_certificates import HostCertificate
from tests.keypairs import RSA
from tests.live.ssh import keygen, sshd
from tests.live.ssh.sshd import HOST

AUTHORITIES: dict[str, PrivateKey] = {
    "ed25519": keys.generate_ed25519(),
    "ecdsa": keys.generate_ecdsa("nistp256"),
    "rsa": RSA,
}
AUTHORITY = AUTHORITIES["ed25519"]
NOW = datetime.now(UTC)
CERTIFICATE = HostCertificate(
    key_id="shcrt_1",
    serial=1,
    public_key=keys.generate_ed25519().public_key(),  # each server has one of its own
    principals=["db.example.com", "192.0.2.1"],
    valid_after=NOW - timedelta(hours=1),
    valid_until=NOW + timedelta(hours=1),
)
EMPTY = krl.make(version=1, generated=NOW, certificates=[])
_OPTIONS = (
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "GlobalKnownHostsFile=/dev/null",
    "HostKeyAlgorithms=ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "PreferredAuthentications=none",  # it is over once the host is believed
)
BELIEVED = "Permission denied (publickey)."
NOT_BELIEVED = "Host key verification failed."

Connect = Callable[..., str]


@pytest.fixture
def connect(tmp_path: Path) -> Connect:
    """Start a server with a certificate, connect to it by a name, and return the last words of the client."""

    def connect(
        certificate: HostCertificate,
        name: str,
        *,
        authority: PrivateKey = AUTHORITY,
        trusted: PrivateKey = AUTHORITY,
        revoked: bytes = EMPTY,
    ) -> str:
        key = keygen.generate(tmp_path / "certified", "ecdsa", 256)
        certified = replace(certificate, public_key=keys.parse_authorized_key(key.public).key)
        (tmp_path / "certified-cert.pub").write_text(ssh_certificates.sign(certified, authority))
        known_hosts = tmp_path / "known_hosts"
        known_hosts.write_text(f"@cert-authority * {keys.authorized_key(trusted.public_key())}\n")
        (tmp_path / "revoked").write_bytes(revoked)
        files = (f"UserKnownHostsFile={known_hosts}", f"RevokedHostKeys={tmp_path}/revoked")
        lines = (f"HostKey {tmp_path}/certified", f"HostCertificate {tmp_path}/certified-cert.pub")
        with sshd.running(tmp_path, *lines) as server:
            options = [f"-o{option}" for option in (*_OPTIONS, *files, f"HostKeyAlias={name}")]
            command = ["ssh", "-F", "none", *options, "-p", str(server.port), HOST]
            return subprocess.run(command, capture_output=True, text=True, timeout=30).stderr.splitlines()[-1]

    return connect


@pytest.mark.parametrize("authority", AUTHORITIES.values(), ids=AUTHORITIES)
def test_a_host_is_believed_under_the_names_that_an_authority_vouches_for(
    connect: Connect, authority: PrivateKey
) -> None:
    assert connect(CERTIFICATE, "db.example.com", authority=authority, trusted=authority).endswith(BELIEVED)


@pytest.mark.parametrize(
    ("certificate", "name"),
    [
        (CERTIFICATE, "web.example.com"),
        (replace(CERTIFICATE, valid_until=NOW - timedelta(minutes=1)), "db.example.com"),
        (replace(CERTIFICATE, valid_after=NOW + timedelta(minutes=45)), "db.example.com"),
    ],
    ids=["another name", "ended", "not yet valid"],
)
def test_a_host_is_not_believed(connect: Connect, certificate: HostCertificate, name: str) -> None:
    assert connect(certificate, name) == NOT_BELIEVED


def test_a_host_of_another_authority_is_not_believed(connect: Connect) -> None:
    assert connect(CERTIFICATE, "db.example.com", trusted=AUTHORITIES["ecdsa"]) == NOT_BELIEVED


@pytest.mark.parametrize(
    ("serial", "outcome"), [(CERTIFICATE.serial + 1, BELIEVED), (CERTIFICATE.serial, NOT_BELIEVED)]
)
def test_a_host_is_not_believed_once_the_list_revokes_its_certificate(
    connect: Connect, serial: int, outcome: str
) -> None:
    revoked = [Revoked(keys.authorized_key(AUTHORITY.public_key()), [serial])]
    content = krl.make(version=1, generated=NOW, certificates=revoked)
    assert connect(CERTIFICATE, "db.example.com", revoked=content).endswith(outcome)
