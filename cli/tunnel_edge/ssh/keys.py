"""Ed25519 keys in OpenSSH's format. Only the functions that need the package cryptography import it."""

from typing import Any


def generate() -> Any:
    """Return a new private key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.generate()


def load(content: bytes) -> Any:
    """Return the private key in the content of a file. Return None if there is no readable key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    try:
        key = load_ssh_private_key(content, None)
    except (ValueError, TypeError):
        return None
    return key if isinstance(key, Ed25519PrivateKey) else None


def encode(key: Any) -> bytes:
    """Return the content of a file for a private key."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))


def public_line(key: Any) -> str:
    """Return the public key of a private key, as a line in OpenSSH's format."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return str(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode())
