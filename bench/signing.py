"""The certificate that the library alone, or ssh-keygen, signs for comparison."""

import subprocess
import time
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import SSHCertificateBuilder, SSHCertificateType
from cryptography.x509.oid import NameOID

from chalicelib import ids
from chalicelib.crypto import keys

AUTHORITY = Ed25519PrivateKey.generate()
PUBLIC_KEY = Ed25519PrivateKey.generate().public_key()
_DAY = 24 * 60 * 60


def sign() -> bytes:
    """Sign one certificate with the library."""
    now = int(time.time())
    builder = SSHCertificateBuilder().public_key(PUBLIC_KEY).serial(1).type(SSHCertificateType.USER)
    builder = builder.key_id(ids.new("sucrt").encode()).valid_principals([b"alice"])
    builder = builder.valid_after(now).valid_before(now + _DAY)
    builder = builder.add_extension(b"permit-pty", b"").add_extension(b"permit-user-rc", b"")
    return builder.sign(AUTHORITY).public_bytes()


def request(authority: str) -> dict[str, Any]:
    """Return the API request for the same certificate."""
    public_key = keys.authorized_key(PUBLIC_KEY)
    return {"ssh_certificate_authority_id": authority, "public_key": public_key, "principals": ["alice"]}


def csr() -> str:
    """Return a signing request for an X.509 certificate."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "alice.example")])
    signed = x509.CertificateSigningRequestBuilder().subject_name(name).sign(Ed25519PrivateKey.generate(), None)
    return signed.public_bytes(serialization.Encoding.PEM).decode()


def keygen(folder: Path) -> list[str]:
    """Write the input files of ssh-keygen. Return the command that signs the same certificate."""
    authority, public_key = folder / "ca", folder / "id.pub"
    authority.touch(mode=0o600)
    authority.write_bytes(
        AUTHORITY.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        )
    )
    public_key.write_text(f"{keys.authorized_key(PUBLIC_KEY)}\n")
    command = ["ssh-keygen", "-q", "-s", str(authority), "-I", "id", "-n", "alice", "-V", "+1d", str(public_key)]
    subprocess.run(command, check=True)
    return command
