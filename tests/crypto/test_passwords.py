"""Salted digests of passwords."""

import hashlib

from chalicelib.crypto import passwords


def test_a_digest_is_of_one_password() -> None:
    made = passwords.make_digest("p:ss wörd")
    assert passwords.matches("p:ss wörd", made)
    for other in ("", "p:ss word", "p:ss wörd ", "P:SS WÖRD"):
        assert not passwords.matches(other, made)


def test_a_digest_has_its_own_salt() -> None:
    one, two = passwords.make_digest("password"), passwords.make_digest("password")
    assert one[:16] != two[:16]
    assert one[16:] != two[16:]
    assert one[16:] == hashlib.scrypt(b"password", salt=one[:16], n=2048, r=8, p=1, dklen=32)
