"""Key pairs of the three types the API knows, and public keys in OpenSSH authorized_keys form."""

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
    """A public key, and the line in OpenSSH authorized_keys form that it was read from."""

    line: str
    key: PublicKey


_CURVES: dict[str, type[ec.EllipticCurve]] = {
    "nistp256": ec.SECP256R1,
    "nistp384": ec.SECP384R1,
    "nistp521": ec.SECP521R1,
}
_MIN_RSA_BITS, _MAX_RSA_BITS = 2048, 16384  # OpenSSH refuses moduli above 16,384 bits
_MAX_CERTIFIED_RSA_BITS = 8192
_PRIVATE_KEY = re.compile(r"^[ \t]*-.*PRIVATE KEY|^PuTTY-User-Key-File-", flags=re.MULTILINE)  # a comment may say so
_CONTROL_CHARACTER = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")  # but the tab, CR and LF


def generate_rsa(bits: Literal[2048, 4096]) -> rsa.RSAPrivateKey:
    """Generate an RSA key; 4096 bits take some tenths of a second."""
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


def generate_ecdsa(curve: Curve) -> ec.EllipticCurvePrivateKey:
    """Generate an ECDSA key on a curve by its OpenSSH name."""
    return ec.generate_private_key(_CURVES[curve]())


def generate_ed25519() -> ed25519.Ed25519PrivateKey:
    """Generate an Ed25519 key."""
    return ed25519.Ed25519PrivateKey.generate()


def to_der(key: PrivateKey) -> bytes:
    """Return a private key as PKCS#8 DER, unencrypted; at most 2,400 bytes."""
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


def from_der(der: bytes) -> PrivateKey:
    """Return the private key that `to_der` wrote. Raises ValueError if it is damaged.

    For our own keys only: their primes are not checked again, which would take RSA a third of a second.
    """
    key = load_der_private_key(der, password=None, unsafe_skip_rsa_key_validation=True)
    if not isinstance(key, PrivateKey):
        raise ValueError("not an rsa, ecdsa or ed25519 private key")
    return key


def authorized_key(key: PublicKey) -> str:
    """Return a public key as one authorized_keys line without a comment."""
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def wire(key: PublicKey) -> bytes:
    """Return a public key in the wire form of RFC 4253."""
    return base64.b64decode(authorized_key(key).split()[1])


def digest(key: PublicKey) -> bytes:
    """Return the 32-byte SHA-256 digest of a public key, which its fingerprint encodes."""
    return hashlib.sha256(wire(key)).digest()


def fingerprint(digest: bytes) -> str:
    """Return the fingerprint, as ssh-keygen -l prints it, of a key's digest."""
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def parse_authorized_key(line: str) -> AuthorizedKey:
    """Read the line `<type> <base64> [comment]` of a key to be certified. Raises ValueError: what is wrong with it."""
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
    """Return the text of a public key. Raises ValueError if it is a private key, never repeated, or binary."""
    if _PRIVATE_KEY.search(text):
        raise ValueError("must be a public key; this is a private one, which nobody else should ever see")
    if _CONTROL_CHARACTER.search(text):
        raise ValueError("must be text without control characters")
    return text


def split(line: str) -> list[str]:
    """Return the type, the base64 and the comment, as far as they are there. Only spaces and tabs separate them."""
    return re.split("[ \t]+", line.strip(" \t\r\n"), maxsplit=2)


def decode(encoded: str) -> bytes:
    """Return the bytes of a key's base64. Raises ValueError for any other character, which the libraries would skip."""
    content = base64.b64decode(encoded, validate=True)
    if base64.b64encode(content).decode() != encoded:  # Python takes more padding than there may be
        raise ValueError("not base64")
    return content


def load_openssh(name: str, encoded: str, *, max_rsa_bits: int = _MAX_RSA_BITS) -> PublicKey:
    """Read a key from OpenSSH's name of its type and its base64. Raises ValueError, which says what is wrong."""
    if name == "ssh-dss":  # on which the library would write a warning
        raise ValueError("must be an rsa, ecdsa or ed25519 key")
    try:
        decode(encoded)
        key = load_ssh_public_key(f"{name} {encoded}".encode())
    except (ValueError, UnsupportedAlgorithm, NotImplementedError):  # the last for a compressed point
        raise ValueError("must hold an intact rsa, ecdsa or ed25519 public key") from None
    return accepted(key, max_rsa_bits=max_rsa_bits)


def accepted(key: object, *, max_rsa_bits: int = _MAX_RSA_BITS) -> PublicKey:
    """Return a key of a type, curve and size that OpenSSH and the API take. Raises ValueError for another."""
    if not isinstance(key, PublicKey):
        raise ValueError("must be an rsa, ecdsa or ed25519 key")
    if isinstance(key, rsa.RSAPublicKey) and not _MIN_RSA_BITS <= key.key_size <= max_rsa_bits:
        raise ValueError(f"must be an RSA key of {_MIN_RSA_BITS} to {max_rsa_bits} bits")
    if isinstance(key, ec.EllipticCurvePublicKey) and not isinstance(key.curve, tuple(_CURVES.values())):
        raise ValueError(f"must be an ECDSA key on one of the curves {', '.join(_CURVES)}")
    return key


def check_strength(key: PublicKey) -> None:
    """Raise ValueError for a key that anybody could use. What is stored is not looked at again: it can be revoked."""
    if isinstance(key, rsa.RSAPublicKey):
        modulus = key.public_numbers().n
        if weak_keys.is_easily_factored(modulus):
            raise ValueError("must be a key that only its owner can use; the modulus of this one is easily factored")
        if weak_keys.is_prime(modulus):
            raise ValueError("must be a key that only its owner can use; the modulus of this one is a prime")
    if isinstance(key, ed25519.Ed25519PublicKey) and weak_keys.has_small_order(key.public_bytes_raw()):
        raise ValueError("must be a key that only its owner can use; anybody can sign for this one")


def key_type(key: PublicKey | PrivateKey) -> KeyType:
    """Return the name of a key's type in the API."""
    if isinstance(key, rsa.RSAPublicKey | rsa.RSAPrivateKey):
        return "rsa"
    return "ecdsa" if isinstance(key, ec.EllipticCurvePublicKey | ec.EllipticCurvePrivateKey) else "ed25519"


def rsa_bits(key: PublicKey) -> int:
    """Return the bits of an RSA key's modulus, 0 of another key."""
    return key.key_size if isinstance(key, rsa.RSAPublicKey) else 0
