"""Salted digests of passwords, by scrypt (RFC 7914)."""

import hashlib
import hmac
import os

_SALT = 16  # bytes
# a digest takes 2 MiB and some milliseconds, both when the edge verifies a password and when an attacker guesses one
_COST, _BLOCK, _LANES = 1 << 11, 8, 1
_LENGTH = 32  # bytes


def make_digest(password: str, salt: bytes = b"") -> bytes:
    """Return a salt, followed by the digest of the salted password. By default the salt is new."""
    salt = salt or os.urandom(_SALT)
    return salt + hashlib.scrypt(password.encode(), salt=salt, n=_COST, r=_BLOCK, p=_LANES, dklen=_LENGTH)


def matches(password: str, expected: bytes) -> bool:
    """Return whether a digest belongs to a password. The comparison takes equally long for all passwords."""
    return hmac.compare_digest(make_digest(password, expected[:_SALT]), expected)
