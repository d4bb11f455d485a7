"""Salted digests of passwords."""

import hashlib

from chalicelib.crypto import passwords


def test_a_digest_is_of_one_password() -> None:
    digest = passwords.make_digest("p:ss wörd")
    assert passwords.matches("p:ss wörd", digest)
    for other in ("", "p:ss word", "p:ss wörd ", "P:SS WÖRD"):
        assert not passwords.matches(other, digest)


def test_a_digest_has_its_own_salt() -> None:
    first, second = passwords.make_digest("password"), passwords.make_digest("password")
    assert first[:16] != second[:16]
    assert first[16:] != second[16:]
    assert first[16:] == hashlib.scrypt(b"password", salt=first[:16], n=2048, r=8, p=1, dklen=32)
