"""Private keys that were made to keep the service busy, or that no tool would write."""

import time

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from chalicelib.crypto import pem, private_keys
from tests.keypairs import RSA

DAMAGED = "must be an intact private key: its content cannot be parsed"
VALUES = ("n", "e", "d", "p", "q", "dp", "dq", "qinv")


def integer(number: int) -> bytes:
    """Return a number in DER."""
    content = number.to_bytes(number.bit_length() // 8 + 1, signed=True)
    return b"\x02" + length(content) + content


def length(content: bytes) -> bytes:
    size = len(content).to_bytes(4).lstrip(b"\0")
    return size if len(content) < 128 else bytes([0x80 | len(size)]) + size


def rsa(**values: int) -> str:
    """Return an RSA key of these numbers in PKCS#1."""
    content = b"".join(map(integer, (0, *(values[name] for name in VALUES))))
    return pem.encode("RSA PRIVATE KEY", b"\x30" + length(content) + content)


@pytest.fixture(scope="module")
def sound() -> dict[str, int]:
    key = RSA.private_numbers()
    public = key.public_numbers
    numbers = (public.n, public.e, key.d, key.p, key.q, key.dmp1, key.dmq1, key.iqmp)
    return dict(zip(VALUES, numbers, strict=True))


def test_a_sound_key_is_read(sound: dict[str, int]) -> None:
    key = private_keys.read(rsa(**sound))
    assert isinstance(key, RSAPrivateKey)
    assert key.private_numbers().public_numbers.n == sound["n"]


@pytest.mark.parametrize("value", VALUES)
def test_a_number_that_does_not_fit_the_others_makes_no_key(sound: dict[str, int], value: str) -> None:
    with pytest.raises(ValueError, match=DAMAGED):
        private_keys.read(rsa(**sound | {value: sound[value] + 2}))


@pytest.mark.parametrize("value", VALUES)
def test_a_number_that_is_in_no_key_makes_no_key(sound: dict[str, int], value: str) -> None:
    for number in (-5, 0, 1, 2):
        with pytest.raises(ValueError, match=r"must (be an intact private key|use an RSA key of)"):
            private_keys.read(rsa(**sound | {value: number}))


@pytest.mark.parametrize("bits", [4097, 8192, 16_384, 400_000])
def test_an_rsa_key_above_4096_bits_is_refused_by_its_size(sound: dict[str, int], bits: int) -> None:
    with pytest.raises(ValueError, match=f"must use an RSA key of 2048 to 4096 bits, not {bits}"):
        private_keys.read(rsa(**sound | {"n": 2**bits - 1}))


def test_a_prime_that_takes_minutes_to_check_is_refused_at_once(sound: dict[str, int]) -> None:
    started = time.monotonic()
    with pytest.raises(ValueError, match=DAMAGED):
        private_keys.read(rsa(**sound | {"p": 2**11213 - 1, "q": 2**9941 - 1}))  # both are prime
    assert time.monotonic() - started < 1


def test_a_key_too_long_for_the_vault_is_refused(sound: dict[str, int]) -> None:
    period = (sound["p"] - 1) * (sound["q"] - 1)
    longer = sound["d"] + period * 2**30_000  # decrypts as the shorter one does
    with pytest.raises(ValueError, match=DAMAGED):
        private_keys.read(rsa(**sound | {"d": longer}))
