"""OpenSSH certificates of users and hosts, in authorized_keys form.

The format is OpenSSH's PROTOCOL.certkeys. RSA authorities sign with rsa-sha2-512.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from cryptography.hazmat.primitives.serialization import (
    SSHCertificate,
    SSHCertificateBuilder,
    SSHCertificateType,
    load_ssh_public_identity,
)

from chalicelib.crypto import keys
from chalicelib.crypto.keys import PrivateKey, PublicKey


@dataclass(frozen=True)
class _Certificate:
    key_id: str
    serial: int
    public_key: PublicKey
    principals: Sequence[str]
    valid_after: datetime
    valid_until: datetime


@dataclass(frozen=True)
class UserCertificate(_Certificate):
    """A user certificate to be signed.

    Without principals it is valid for any user. Times are UTC in whole seconds. `valid_until` is the first second at
    which the certificate is no longer valid.
    """

    critical_options: Mapping[str, str]
    extensions: Mapping[str, str]


@dataclass(frozen=True)
class HostCertificate(_Certificate):
    """A host certificate to be signed.

    Principals are the names and addresses that clients connect to; without principals it is valid for any host. OpenSSH
    defines neither critical options nor extensions for hosts.
    """


Certificate = UserCertificate | HostCertificate


@dataclass(frozen=True)
class Signed:
    """The serial of a signed certificate, and its authority as a public key line."""

    serial: int
    authority: str


def read(line: str) -> Signed:
    """Parse a line that `sign` returned. Raises ValueError if it is not a certificate."""
    certificate = load_ssh_public_identity(line.encode())
    if not isinstance(certificate, SSHCertificate):
        raise ValueError("not a certificate")
    return Signed(certificate.serial, keys.authorized_key(keys.require_accepted(certificate.signature_key())))


def sign(certificate: Certificate, authority: PrivateKey) -> str:
    """Sign a certificate and return it as a line with its key id as comment.

    Raises ValueError if a field does not fit the format.
    """
    builder = _add_options(_builder(certificate), certificate)
    return f"{builder.sign(authority).public_bytes().decode()} {certificate.key_id}"


def _builder(certificate: Certificate) -> SSHCertificateBuilder:
    """Return a builder with the fields that user and host certificates have in common."""
    builder = (
        SSHCertificateBuilder()
        .public_key(certificate.public_key)
        .serial(certificate.serial)
        .key_id(certificate.key_id.encode())
        .valid_after(int(certificate.valid_after.timestamp()))
        .valid_before(int(certificate.valid_until.timestamp()))
    )
    if certificate.principals:
        return builder.valid_principals([name.encode() for name in certificate.principals])
    return builder.valid_for_all_principals()  # type: ignore[no-untyped-call, no-any-return]


def _add_options(builder: SSHCertificateBuilder, certificate: Certificate) -> SSHCertificateBuilder:
    if isinstance(certificate, HostCertificate):
        return builder.type(SSHCertificateType.HOST)
    builder = builder.type(SSHCertificateType.USER)
    for name, value in certificate.critical_options.items():
        builder = builder.add_critical_option(name.encode(), value.encode())
    for name, value in certificate.extensions.items():
        builder = builder.add_extension(name.encode(), value.encode())
    return builder
