"""Salted digests of passwords, by scrypt (RFC 7914)."""

import hashlib
import hmac
import os

_SALT_BYTES = 16
# a digest takes 2 MiB and some milliseconds, for the edge that verifies a password and for an attacker who tries one
_COST, _BLOCK, _LANES = 1 << 11, 8, 1
_DIGEST_BYTES = 32


def make_digest(password: str, salt: bytes = b"") -> bytes:
    """Return a salt, followed by the digest of the salted password. The default is a random salt."""
    salt = salt or os.urandom(_SALT_BYTES)
    return salt + hashlib.scrypt(password.encode(), salt=salt, n=_COST, r=_BLOCK, p=_LANES, dklen=_DIGEST_BYTES)


def matches(password: str, expected: bytes) -> bool:
    """Return whether a digest belongs to a password. The comparison takes equally long for all passwords."""
    return hmac.compare_digest(make_digest(password, expected[:_SALT_BYTES]), expected)
