"""Key pairs of the three types, kept as DER, and the authorized_keys lines that certificates are asked for with."""

from contextlib import suppress

import pytest
from cryptography.hazmat.primitives.asymmetric import ed448
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.crypto import keys
from chalicelib.crypto.keys import PrivateKey

MADE = {
    "rsa": keys.generate_rsa(2048),
    "ecdsa": keys.generate_ecdsa("nistp384"),
    "ed25519": keys.generate_ed25519(),
}
each_type = pytest.mark.parametrize(("key_type", "key"), MADE.items(), ids=MADE)


@each_type
def test_a_key_tells_its_type(key_type: str, key: PrivateKey) -> None:
    assert keys.key_type(key) == keys.key_type(key.public_key()) == key_type


@each_type
def test_a_key_kept_as_der_is_the_same_afterwards(key_type: str, key: PrivateKey) -> None:
    read = keys.from_der(keys.to_der(key))
    assert keys.authorized_key(read.public_key()) == keys.authorized_key(key.public_key())
    assert keys.to_der(read) == keys.to_der(key)


def test_the_largest_key_fits_into_the_vault() -> None:
    assert len(keys.to_der(keys.generate_rsa(4096))) <= 2400


@each_type
def test_a_public_key_is_read_from_the_line_it_was_written_as(key_type: str, key: PrivateKey) -> None:
    line = keys.authorized_key(key.public_key()) + " and a comment\n"
    read = keys.parse_authorized_key(line)
    assert read.line == line
    assert read.key == key.public_key()


def test_a_damaged_key_and_one_of_another_type_are_refused() -> None:
    der = keys.to_der(MADE["ed25519"])
    other = ed448.Ed448PrivateKey.generate().private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    for wrong in (b"", der[:-1], other):
        with pytest.raises(ValueError, match=r"."):
            keys.from_der(wrong)


@settings(max_examples=200, derandomize=True)
@given(st.text(), st.sampled_from(["ssh-rsa", "ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-dss", ""]), st.binary())
def test_any_line_is_a_key_or_a_value_error(text: str, kind: str, blob: bytes) -> None:
    for line in (text, f"{kind} {text}", f"{kind} {blob.hex()}", f"{kind} AAAA{text}"):
        with suppress(ValueError):
            keys.parse_authorized_key(line)


@settings(max_examples=200, derandomize=True)
@given(place=st.integers(0, 10_000), value=st.integers(0, 255), kind=st.sampled_from([*MADE]))
def test_a_line_with_one_wrong_character_is_a_key_or_a_value_error(place: int, value: int, kind: str) -> None:
    line = keys.authorized_key(MADE[kind].public_key())
    place %= len(line)
    with suppress(ValueError):
        keys.parse_authorized_key(line[:place] + chr(value) + line[place + 1 :])
