"""OpenSSH user certificates, in the authorized_keys form that ssh reads beside a private key.

The format is OpenSSH's PROTOCOL.certkeys; RSA authorities sign with rsa-sha2-512.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from cryptography.hazmat.primitives.serialization import SSHCertificateBuilder, SSHCertificateType

from chalicelib.crypto.keys import PrivateKey, PublicKey


@dataclass(frozen=True)
class UserCertificate:
    """What an authority vouches for: who may sign in with the key, how, and from when until when.

    No principals: any user. Times are UTC, whole seconds, the second one excluded.
    """

    key_id: str
    serial: int
    public_key: PublicKey
    principals: Sequence[str]
    valid_after: datetime
    valid_until: datetime
    critical_options: Mapping[str, str]
    extensions: Mapping[str, str]


def sign(certificate: UserCertificate, authority: PrivateKey) -> str:
    """The signed certificate as one line, its key id as the comment; ValueError for what the format cannot hold."""
    builder = (
        SSHCertificateBuilder()
        .public_key(certificate.public_key)
        .serial(certificate.serial)
        .type(SSHCertificateType.USER)
        .key_id(certificate.key_id.encode())
        .valid_after(int(certificate.valid_after.timestamp()))
        .valid_before(int(certificate.valid_until.timestamp()))
    )
    builder = (
        builder.valid_principals([name.encode() for name in certificate.principals])
        if certificate.principals
        else builder.valid_for_all_principals()  # type: ignore[no-untyped-call]
    )
    for name, value in certificate.critical_options.items():
        builder = builder.add_critical_option(name.encode(), value.encode())
    for name, value in certificate.extensions.items():
        builder = builder.add_extension(name.encode(), value.encode())
    return f"{builder.sign(authority).public_bytes().decode()} {certificate.key_id}"
