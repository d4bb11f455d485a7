"""Certificate authorities of the edge, for local domains and for connections between its hosts.

A user can make browsers trust the authority for a local domain. Name constraints limit the authority to that domain, so
a stolen key is useless for other domains.
"""

import ipaddress
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from edge.process import files

_YEARS = timedelta(days=3650)
_LEAF = timedelta(days=90)
_CLOCKS_DIFFER = timedelta(hours=1)
_SERVES, _CONNECTS = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH


@dataclass(frozen=True)
class KeyPair:
    """A certificate chain and its private key, in PEM. The key is never written to a file."""

    chain: str
    key: str

    def __repr__(self) -> str:
        return "KeyPair(…)"

    def dns_names(self) -> frozenset[str]:
        """Return the DNS names of the certificate. Raises ValueError if it cannot be read."""
        leaf = x509.load_pem_x509_certificate(self.chain.encode())
        try:
            names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return frozenset()
        return frozenset(names.get_values_for_type(x509.DNSName))


@dataclass(frozen=True, repr=False)
class Authority:
    """A CA certificate, with the private key that signs other certificates."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def issue(self, *names: str) -> KeyPair:
        """Return a new key and a certificate for DNS names. TLS clients and servers can use the certificate."""
        return self._issue(names, [_SERVES, _CONNECTS])

    def issue_for_server(self, name: str) -> KeyPair:
        """Return a new key and a certificate for a DNS name. The certificate is for TLS servers, not for clients."""
        return self._issue([name], [_SERVES])

    def _issue(self, names: Sequence[str], usages: Sequence[x509.ObjectIdentifier]) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(names[0], self.certificate.subject, key, _LEAF)
        names_in_it = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
        builder = builder.add_extension(names_in_it, critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        chain = builder.add_extension(identifier, critical=False).sign(self.key, hashes.SHA256())
        return KeyPair(chain.public_bytes(Encoding.PEM).decode(), _pem(key))

    def to_pem(self) -> str:
        """Return the private key and the certificate of the authority in PEM, for `from_pem`."""
        return _pem(self.key) + self.pem


def make(name: str, domain: str = "") -> Authority:
    """Return a new authority. If a domain is given, the authority is limited to it and its subdomains."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = _builder(name, subject, key, _YEARS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_SIGNS, critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    if domain:
        builder = builder.add_extension(_build_constraints(domain), critical=True)
    return Authority(builder.sign(key, hashes.SHA256()), key)


def from_pem(text: str) -> Authority:
    """Parse the output of `to_pem`. Raises ValueError."""
    key = load_pem_private_key(text.encode(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("must contain the private key as an elliptic curve key")
    return Authority(x509.load_pem_x509_certificate(text.encode()[text.index("-----BEGIN CERT") :]), key)


def load_or_make(file: Path, name: str, domain: str) -> Authority:
    """Load an authority from a file. If there is no file, make an authority and write it, with mode 0600.

    Raises OSError.
    """
    if not file.exists():
        authority = make(name, domain)
        files.replace(file, authority.to_pem().encode())
        return authority
    return from_pem(file.read_text())


def load_into(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Load a key pair into a TLS context.

    Python loads keys only from files, so this function writes the pair to a file in memory.
    """
    descriptor = os.memfd_create("pair", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, (pair.key + pair.chain).encode())
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


_SIGNS = x509.KeyUsage(
    digital_signature=True,
    key_cert_sign=True,
    crl_sign=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


def _builder(
    name: str, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, lifetime: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + lifetime)
    )


def _build_constraints(domain: str) -> x509.NameConstraints:
    networks = [ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")]
    excluded = [x509.IPAddress(network) for network in networks]
    return x509.NameConstraints(permitted_subtrees=[x509.DNSName(domain)], excluded_subtrees=excluded)


def _pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
