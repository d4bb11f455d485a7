"""Private keys of TLS certificates in PEM: PKCS#8, PKCS#1 or SEC1.

An RSA key is loaded twice, first without checks, because checking the primes of a hostile key takes minutes.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from cryptography.exceptions import InternalError, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_der_private_key

from chalicelib.crypto import keys, pem
from chalicelib.crypto.keys import PrivateKey, PublicKey
from chalicelib.crypto.pem import Block

_KINDS = "must use an rsa key, an ecdsa key on the curve P-256, P-384 or P-521, or an ed25519 key"
_LABELS = {"PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"}
_INSTEAD = {
    "ENCRYPTED PRIVATE KEY": "must not be encrypted: send what 'openssl pkey -in <file>' prints",
    "OPENSSH PRIVATE KEY": "must not be in OpenSSH's format: send a PKCS#8, PKCS#1 or SEC1 key",
    "DSA PRIVATE KEY": _KINDS,
    "CERTIFICATE": "must be only the private key, not certificates: check that the two files are not swapped or merged",
    "PUBLIC KEY": "must be the private key, not the public one",
    "RSA PUBLIC KEY": "must be the private key, not the public one",
}
_MIN_RSA_BITS, _MAX_RSA_BITS = 2048, 4096
_MAX_DER_BYTES = 4096  # the most bytes that `storage/vault.py` can encrypt; a valid key has at most 2,400
_CURVES = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)
_DAMAGED = "must be an intact private key: its content cannot be parsed"

# Diffie-Hellman keys are rejected with an error message, so the library's warning about them adds nothing
warnings.filterwarnings("ignore", message="Diffie-Hellman over finite fields")


def read(text: str) -> PrivateKey:
    """Parse the only private key of a PEM text. Raises ValueError without repeating the text."""
    content = _require_one_key(pem.blocks(text)).decode()
    with _translate_errors():
        unchecked = load_der_private_key(content, password=None, unsafe_skip_rsa_key_validation=True)
    _check_size(_require_kind(unchecked))
    with _translate_errors():
        key = _require_kind(load_der_private_key(content, password=None))
    if len(keys.to_der(key)) > _MAX_DER_BYTES:
        raise ValueError(_DAMAGED)
    return key


def require_usable(key: object) -> PublicKey:
    """Return a public key if its type and size are accepted in TLS certificates. Raises ValueError."""
    if isinstance(key, rsa.RSAPublicKey):
        # OpenSSL refuses RSA keys of less than 2,048 bits, both as a server and as a client
        if not _MIN_RSA_BITS <= key.key_size <= _MAX_RSA_BITS:
            raise ValueError(f"must use an RSA key of {_MIN_RSA_BITS} to {_MAX_RSA_BITS} bits, not {key.key_size}")
        return key
    if isinstance(key, ed25519.Ed25519PublicKey):
        return key
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, _CURVES):
        return key
    raise ValueError(_KINDS)


def _require_one_key(blocks: list[Block]) -> Block:
    # `openssl ecparam -genkey` writes a block EC PARAMETERS before the block of the key
    key_blocks = [block for block in blocks if block.label != "EC PARAMETERS"]
    for block in key_blocks:
        if block.is_encrypted:
            raise ValueError(_INSTEAD["ENCRYPTED PRIVATE KEY"])
        if block.label not in _LABELS:
            raise ValueError(_INSTEAD.get(block.label, "must be only a private key"))
    if len(key_blocks) != 1:
        raise ValueError("must be PEM (text with BEGIN and END lines) with exactly one private key")
    return key_blocks[0]


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Translate errors of cryptography into a ValueError that does not show the key."""
    try:
        yield
    except UnsupportedAlgorithm:
        raise ValueError(_KINDS) from None
    except (ValueError, TypeError, InternalError):
        raise ValueError(_DAMAGED) from None


def _require_kind(key: object) -> PrivateKey:
    if not isinstance(key, PrivateKey):
        raise ValueError(_KINDS)
    return key


def _check_size(key: PrivateKey) -> None:
    """Raise ValueError for a key with primes that take long to check."""
    require_usable(key.public_key())
    if isinstance(key, rsa.RSAPrivateKey):
        numbers = key.private_numbers()
        if max(numbers.p, numbers.q).bit_length() > _MAX_RSA_BITS // 2:
            raise ValueError(_DAMAGED)
