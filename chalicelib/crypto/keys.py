"""Key pairs of the types rsa, ecdsa and ed25519, and public keys in OpenSSH authorized_keys form."""

import base64
import hashlib
import re
from dataclasses import dataclass
from typing import Literal

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_ssh_public_key,
)

from chalicelib.crypto import weak_keys

KeyType = Literal["rsa", "ecdsa", "ed25519"]
Curve = Literal["nistp256", "nistp384", "nistp521"]
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey


@dataclass(frozen=True)
class AuthorizedKey:
    """A public key and the authorized_keys line it was read from."""

    line: str
    key: PublicKey


_CURVES: dict[str, type[ec.EllipticCurve]] = {
    "nistp256": ec.SECP256R1,
    "nistp384": ec.SECP384R1,
    "nistp521": ec.SECP521R1,
}
_MIN_RSA_BITS, _MAX_RSA_BITS = 2048, 16384  # OpenSSH refuses moduli above 16,384 bits
_MAX_CERTIFIED_RSA_BITS = 8192
_FIELD = 2**255 - 19  # the prime of Curve25519's field (RFC 8032, 5.1)
_D = -121665 * pow(121666, -1, _FIELD)
# A match begins at the start of a line, because the comment of a public key may contain "PRIVATE KEY".
_PRIVATE_KEY = re.compile(r"^[ \t]*-.*PRIVATE KEY|^PuTTY-User-Key-File-", flags=re.MULTILINE)

# all control characters except tab, CR and LF
_CONTROL_CHARACTER = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")


def generate_rsa(bits: Literal[2048, 4096]) -> rsa.RSAPrivateKey:
    """Generate an RSA key. 4096 bits take a few tenths of a second."""
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


def generate_ecdsa(curve: Curve) -> ec.EllipticCurvePrivateKey:
    """Generate an ECDSA key on a curve, given by its OpenSSH name."""
    return ec.generate_private_key(_CURVES[curve]())


def generate_ed25519() -> ed25519.Ed25519PrivateKey:
    """Generate an Ed25519 key."""
    return ed25519.Ed25519PrivateKey.generate()


def to_der(key: PrivateKey) -> bytes:
    """Return a private key as PKCS#8 DER, unencrypted; at most 2,400 bytes."""
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


def from_der(der: bytes) -> PrivateKey:
    """Return the private key that `to_der` encoded. Raises ValueError if it is damaged.

    Use it only for keys that this service generated: primes are not checked, which would take a third of a second.
    """
    key = load_der_private_key(der, password=None, unsafe_skip_rsa_key_validation=True)
    if not isinstance(key, PrivateKey):
        raise ValueError("the stored private key must be an rsa, ecdsa or ed25519 key")
    return key


def authorized_key(key: PublicKey) -> str:
    """Return a public key as one authorized_keys line without a comment."""
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def wire(key: PublicKey) -> bytes:
    """Return a public key in the wire form of RFC 4253."""
    return base64.b64decode(authorized_key(key).split()[1])


def digest(key: PublicKey) -> bytes:
    """Return the SHA-256 digest of a public key, 32 bytes. `fingerprint` writes the digest as text."""
    return hashlib.sha256(wire(key)).digest()


def fingerprint(digest: bytes) -> str:
    """Return the fingerprint of a key's digest, as ssh-keygen -l prints it."""
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def parse_authorized_key(line: str) -> AuthorizedKey:
    """Parse a public key that will be certified: `<type> <base64> [comment]`. Raises ValueError."""
    words = split(check_text(line))
    if len(words) < 2 or len(line.strip().splitlines()) > 1:
        raise ValueError("must be one line in OpenSSH authorized_keys form: <type> <base64> [comment]")
    if words[0].endswith("-cert-v01@openssh.com"):
        raise ValueError("must be a plain public key, not a certificate")
    if words[0].startswith("sk-"):
        raise ValueError("must be an rsa, ecdsa or ed25519 key; security keys cannot be certified")
    key = load_openssh(words[0], words[1], max_rsa_bits=_MAX_CERTIFIED_RSA_BITS)
    check_strength(key)
    return AuthorizedKey(line, key)


def check_text(text: str) -> str:
    """Return the text of a public key. Raises ValueError for a private key or binary data.

    The error never repeats the text.
    """
    if _PRIVATE_KEY.search(text):
        raise ValueError("must be a public key; this is a private key, which you should never share")
    if _CONTROL_CHARACTER.search(text):
        raise ValueError("must be text without control characters")
    return text


def split(line: str) -> list[str]:
    """Split a line at spaces and tabs into type, base64 and comment. The last two can be missing."""
    return re.split("[ \t]+", line.strip(" \t\r\n"), maxsplit=2)


def decode(encoded: str) -> bytes:
    """Return the bytes of a key's base64. Raises ValueError unless it is strict base64."""
    content = base64.b64decode(encoded, validate=True)
    if base64.b64encode(content).decode() != encoded:  # `b64decode` also accepts superfluous padding
        raise ValueError("not base64")
    return content


def load_openssh(name: str, encoded: str, *, max_rsa_bits: int = _MAX_RSA_BITS) -> PublicKey:
    """Parse a public key: `name` is OpenSSH's name for its type, `encoded` its base64. Raises ValueError."""
    if name == "ssh-dss":  # DSA keys are rejected here, because cryptography would print a warning about them
        raise ValueError("must be an rsa, ecdsa or ed25519 key")
    try:
        decode(encoded)
        key = load_ssh_public_key(f"{name} {encoded}".encode())
    # cryptography raises NotImplementedError for a compressed point
    except (ValueError, UnsupportedAlgorithm, NotImplementedError):
        raise ValueError("must contain an undamaged rsa, ecdsa or ed25519 public key") from None
    return require_accepted(key, max_rsa_bits=max_rsa_bits)


def require_accepted(key: object, *, max_rsa_bits: int = _MAX_RSA_BITS) -> PublicKey:
    """Return a key if OpenSSH and the API accept its type, curve and size. Raises ValueError."""
    if not isinstance(key, PublicKey):
        raise ValueError("must be an rsa, ecdsa or ed25519 key")
    if isinstance(key, rsa.RSAPublicKey) and not _MIN_RSA_BITS <= key.key_size <= max_rsa_bits:
        raise ValueError(f"must be an RSA key of {_MIN_RSA_BITS} to {max_rsa_bits} bits")
    if isinstance(key, ec.EllipticCurvePublicKey) and not isinstance(key.curve, tuple(_CURVES.values())):
        raise ValueError(f"must be an ECDSA key on one of the curves {', '.join(_CURVES)}")
    return key


def check_strength(key: PublicKey) -> None:
    """Raise ValueError if anyone can compute the private key of a public key, or forge its signatures.

    Keys that are already stored are not checked; owners can revoke weak keys.
    """
    if isinstance(key, rsa.RSAPublicKey):
        modulus = key.public_numbers().n
        if weak_keys.is_easily_factored(modulus):
            raise ValueError("must be a secure key; the modulus of this key is easily factored")
        if weak_keys.is_prime(modulus):
            raise ValueError("must be a secure key; the modulus of this key is a prime")
    if isinstance(key, ed25519.Ed25519PublicKey) and _has_small_order(key.public_bytes_raw()):
        raise ValueError("must be a secure key; anyone can forge signatures of this key")


def key_type(key: PublicKey | PrivateKey) -> KeyType:
    """Return the API's name for the type of a key."""
    if isinstance(key, rsa.RSAPublicKey | rsa.RSAPrivateKey):
        return "rsa"
    return "ecdsa" if isinstance(key, ec.EllipticCurvePublicKey | ec.EllipticCurvePrivateKey) else "ed25519"


def rsa_bits(key: PublicKey) -> int:
    """Return the bits of an RSA modulus, or 0 for another type."""
    return key.key_size if isinstance(key, rsa.RSAPublicKey) else 0


def _has_small_order(key: bytes) -> bool:
    """Return whether an Ed25519 key has order 1, 2, 4 or 8. If so, signatures can be forged.

    A point has several encodings, which differ in the sign bit of x, or by adding the field's prime to y. To detect all
    of them, the sign bit is ignored and y is reduced modulo the prime.
    """
    y = (int.from_bytes(key, "little") & (1 << 255) - 1) % _FIELD
    # doubling a point of order 8 gives a point of order 4, which has y = 0; so the point of order 8 has x² = -y²
    is_of_order_8 = (_D * y**4 + 2 * y**2 - 1) % _FIELD == 0
    return y in (0, 1, _FIELD - 1) or is_of_order_8
