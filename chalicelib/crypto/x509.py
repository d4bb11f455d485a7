"""The fields of an X.509 certificate (RFC 5280).

A subject or issuer can have several values for one part, for example several organizations. Only the first value is
read.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InternalError, UnsupportedAlgorithm
from cryptography.x509 import Certificate, DuplicateExtension, InvalidVersion, UnsupportedGeneralNameType
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier, PublicKeyAlgorithmOID

from chalicelib.crypto import private_keys
from chalicelib.crypto.keys import PublicKey

E = TypeVar("E", bound=x509.ExtensionType)
LABELS = {"CERTIFICATE", "X509 CERTIFICATE"}  # labels of PEM blocks that contain a certificate

# for each key usage, its name in RFC 5280 and its attribute in cryptography; in the order of the extension's bits
_KEY_USAGES = {
    "digitalSignature": "digital_signature",
    "contentCommitment": "content_commitment",
    "keyEncipherment": "key_encipherment",
    "dataEncipherment": "data_encipherment",
    "keyAgreement": "key_agreement",
    "keyCertSign": "key_cert_sign",
    "cRLSign": "crl_sign",
}
_KEY_AGREEMENT_USAGES = {"encipherOnly": "encipher_only", "decipherOnly": "decipher_only"}
_EXTENDED_KEY_USAGES = {
    ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE: "anyExtendedKeyUsage",
    ExtendedKeyUsageOID.SERVER_AUTH: "serverAuth",
    ExtendedKeyUsageOID.CLIENT_AUTH: "clientAuth",
    ExtendedKeyUsageOID.CODE_SIGNING: "codeSigning",
    ExtendedKeyUsageOID.EMAIL_PROTECTION: "emailProtection",
    ExtendedKeyUsageOID.TIME_STAMPING: "timeStamping",
    ExtendedKeyUsageOID.OCSP_SIGNING: "OCSPSigning",
}
_MALFORMED = (  # errors of cryptography for a malformed certificate, besides TypeError and KeyError
    ValueError,
    OverflowError,
    UnsupportedAlgorithm,
    InternalError,
    InvalidVersion,
    DuplicateExtension,
    UnsupportedGeneralNameType,
)

# Ignore these warnings: they are about certificates of callers, who cannot see stderr. Both filters apply to the whole
# process, because `warnings.catch_warnings` is not thread-safe.
warnings.filterwarnings("ignore", message="Parsed a serial number which wasn't positive")
warnings.filterwarnings("ignore", message="Attribute's length must be")


@dataclass(frozen=True)
class Name:
    """The parts of a subject or issuer; "" if absent."""

    common_name: str
    organization: str
    organizational_unit: str
    locality: str
    province: str
    country: str


@dataclass(frozen=True)
class Facts:
    """The fields of a certificate.

    Times are in UTC. Usages have the names of RFC 5280. Extended usages without such a name are dotted OIDs.
    Internationalized domain names are not decoded.
    """

    public_key: PublicKey
    subject: Name
    issuer: Name
    serial_number: str  # in lower-case hexadecimal, with two digits for each byte
    not_before: datetime
    not_after: datetime
    dns_names: list[str]
    ips: list[str]
    key_usages: list[str]
    extended_key_usages: list[str]


def load(content: bytes, which: str) -> Certificate:
    """Parse a certificate in DER, but not yet its extensions. Raises ValueError.

    `which` is the name of the certificate in the error.
    """
    with _translate_errors(which):
        return x509.load_der_x509_certificate(content)


def read(certificate: Certificate, which: str) -> Facts:
    """Return the fields of a certificate. Raises ValueError. `which` is the name of the certificate in the error."""
    public_key = private_keys.require_usable(_public_key(certificate))
    with _translate_errors(which):
        return _facts(certificate, public_key)


def requires_ocsp(certificate: Certificate) -> bool:
    """Return whether a certificate requires a stapled OCSP response (RFC 7633). Raises ValueError."""
    with _translate_errors("certificate 1"):
        features = _extension(certificate, x509.TLSFeature)
    return features is not None and x509.TLSFeatureType.status_request in features


def _facts(certificate: Certificate, public_key: PublicKey) -> Facts:
    return Facts(
        public_key=public_key,
        subject=_name(certificate.subject),
        issuer=_name(certificate.issuer),
        serial_number=_format_hexadecimal(certificate.serial_number),
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
        dns_names=_alternatives(certificate, x509.DNSName),
        ips=_alternatives(certificate, x509.IPAddress),
        key_usages=_key_usages(_extension(certificate, x509.KeyUsage)),
        extended_key_usages=_extended_key_usages(_extension(certificate, x509.ExtendedKeyUsage)),
    )


@contextmanager
def _translate_errors(which: str) -> Iterator[None]:
    """Translate errors of cryptography about a malformed certificate into one ValueError."""
    try:
        yield
    except TypeError:
        reason = "a name in the certificate is not text"
    except LookupError:
        reason = "an extension contains a number that has no defined meaning"
    except _MALFORMED as error:
        reason = str(error)
    else:
        return
    demand = f"must contain certificates as they were issued; {which} is damaged or does not conform to RFC 5280"
    raise ValueError(f"{demand}: {reason[:200].rstrip('.')}")


def _public_key(certificate: Certificate) -> object:
    """Return the certificate's public key. Return None if it is damaged or its type is not accepted."""
    if certificate.public_key_algorithm_oid == PublicKeyAlgorithmOID.RSASSA_PSS:
        return None  # few TLS servers can read the private key of an RSASSA-PSS certificate
    try:
        return certificate.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm, InternalError):
        return None


def _extension(certificate: Certificate, kind: type[E]) -> E | None:
    return next((extension.value for extension in certificate.extensions if isinstance(extension.value, kind)), None)


def _alternatives(certificate: Certificate, kind: type[x509.DNSName | x509.IPAddress]) -> list[str]:
    names = _extension(certificate, x509.SubjectAlternativeName)
    return [str(name.value) for name in names or () if isinstance(name, kind)]


def _name(name: x509.Name) -> Name:
    return Name(
        common_name=_find_first(name, NameOID.COMMON_NAME),
        organization=_find_first(name, NameOID.ORGANIZATION_NAME),
        organizational_unit=_find_first(name, NameOID.ORGANIZATIONAL_UNIT_NAME),
        locality=_find_first(name, NameOID.LOCALITY_NAME),
        province=_find_first(name, NameOID.STATE_OR_PROVINCE_NAME),
        country=_find_first(name, NameOID.COUNTRY_NAME),
    )


def _find_first(name: x509.Name, part: ObjectIdentifier) -> str:
    return next((str(attribute.value) for attribute in name.get_attributes_for_oid(part)), "")


def _format_hexadecimal(serial_number: int) -> str:
    if serial_number < 0:
        raise ValueError("the serial number of the certificate must be positive")
    return serial_number.to_bytes((serial_number.bit_length() + 7) // 8 or 1).hex()


def _key_usages(usages: x509.KeyUsage | None) -> list[str]:
    if usages is None:
        return []
    # Unless key_agreement is set, the library raises an error when encipher_only or decipher_only is read.
    asked = _KEY_USAGES | _KEY_AGREEMENT_USAGES if usages.key_agreement else _KEY_USAGES
    return [name for name, attribute in asked.items() if getattr(usages, attribute)]


def _extended_key_usages(usages: x509.ExtendedKeyUsage | None) -> list[str]:
    return [_EXTENDED_KEY_USAGES.get(usage, usage.dotted_string) for usage in usages or ()]
