"""Encrypts texts that browsers store for the sign-in service. This file does no I/O.

A sealed text is `<key id>.<base64url of nonce and AES-GCM ciphertext>`.
"""

import base64
import binascii
import os
from collections.abc import Mapping

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE = 12  # bytes of an AES-GCM nonce


def seal(plain: bytes, kid: str, key: bytes, purpose: bytes) -> str:
    """Encrypt bytes with an AES key of 32 bytes, which has the id `kid`. `unseal` requires the same purpose."""
    nonce = os.urandom(_NONCE)
    return f"{kid}.{encode(nonce + AESGCM(key).encrypt(nonce, plain, purpose))}"


def unseal(text: str, keys: Mapping[str, bytes], purpose: bytes) -> bytes | None:
    """Return the bytes in a sealed text.

    Return None if the text is malformed, has another purpose, or is encrypted with an unknown key.
    """
    kid, _, sealed = text.partition(".")
    if (key := keys.get(kid)) is None:
        return None
    try:
        data = base64.urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4))
        return AESGCM(key).decrypt(data[:_NONCE], data[_NONCE:], purpose)
    except (binascii.Error, ValueError, InvalidTag):
        return None


def encode(data: bytes) -> str:
    """Encode bytes in base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
