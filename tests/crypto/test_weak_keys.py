"""Public keys that anybody could use, in every form in which a key can be sent."""

import base64
import hashlib
import time
from collections.abc import Callable
from functools import partial
from random import SystemRandom

import gmpy2
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from chalicelib.crypto import keys, public_keys
from chalicelib.crypto.keys import PublicKey
from tests.keypairs import RSA

PRIME = "must be a secure key; the modulus of this key is a prime"
FACTORED = "must be a secure key; the modulus of this key is easily factored"
SIGNED_BY_ANYBODY = "must be a secure key; anyone can forge signatures of this key"
INTACT = "must contain an undamaged rsa, ecdsa or ed25519 public key"

FIELD = 2**255 - 19
ORDER_8 = int.from_bytes(bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little")
SMALL_ORDER = [
    y | sign for y in (0, 1, FIELD - 1, FIELD, FIELD + 1, ORDER_8, FIELD - ORDER_8) for sign in (0, 1 << 255)
]

PRIMES = RSA.private_numbers()
P, Q = PRIMES.p, PRIMES.q


def line(name: str, *strings: bytes) -> str:
    packed = b"".join(len(string).to_bytes(4) + string for string in (name.encode(), *strings))
    return f"{name} {base64.b64encode(packed).decode()}"


def rsa_line(exponent: int, modulus: int) -> str:
    return line("ssh-rsa", *(number.to_bytes(number.bit_length() // 8 + 1) for number in (exponent, modulus)))


def pem(key: PublicKey) -> str:
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def assert_refused(text: str, sentence: str, *readers: Callable[[str], object]) -> None:
    for read in readers or (keys.parse_authorized_key, public_keys.check):
        with pytest.raises(ValueError, match="must") as error:
            read(text)
        assert str(error.value) == sentence


@pytest.mark.parametrize(
    "modulus",
    [P * Q + 1, 3 * P * Q, 8191 * P * Q, 131071 * P * Q, P * P, 2**4095 + 1, 2**8192 - 1, 65537 * 641 * P * Q],
    ids=["even", "3", "8191", "131071", "a square", "a power and one", "the longest", "two small factors"],
)
def test_an_rsa_modulus_that_is_easily_factored_is_refused(modulus: int) -> None:
    assert_refused(rsa_line(65537, modulus), FACTORED)
    assert_refused(pem(RSAPublicNumbers(65537, modulus).public_key()), FACTORED, public_keys.check)


def test_an_rsa_modulus_of_two_primes_that_are_neighbours_is_refused() -> None:
    start = 3 << 1022
    first, second, farther = start + 1037, start + 1697, start + (1 << 514) + 235  # all of them prime
    assert_refused(rsa_line(65537, first * second), FACTORED)
    assert_refused(rsa_line(65537, first * farther), FACTORED)


@pytest.mark.parametrize("exponent", [0, 1, 2, 4, 65536])
def test_an_rsa_exponent_that_hides_nothing_or_belongs_to_no_key_is_refused(exponent: int) -> None:
    assert_refused(rsa_line(exponent, P * Q), INTACT)


@pytest.mark.parametrize("exponent", [3, 17, 65537])
def test_a_sound_rsa_key_is_taken(exponent: int) -> None:
    numbers = RSAPublicNumbers(exponent, P * Q)
    assert keys.parse_authorized_key(rsa_line(exponent, P * Q)).key == numbers.public_key()
    assert public_keys.fingerprint(rsa_line(exponent, P * Q)) == public_keys.fingerprint(pem(numbers.public_key()))


@pytest.mark.parametrize("exponent", [2203, 3217, 4253, 4423])
def test_an_rsa_modulus_that_is_a_prime_is_refused(exponent: int) -> None:
    """The private key follows from the public one, which OpenSSL shows: what anybody signed, it takes."""
    modulus, message = 2**exponent - 1, b"anything"
    assert_refused(rsa_line(65537, modulus), PRIME)
    digest = bytes.fromhex("3031300d060960864801650304020105000420") + hashlib.sha256(message).digest()
    length = (exponent + 7) // 8
    padded = b"\0\1" + b"\xff" * (length - len(digest) - 3) + b"\0" + digest
    signature = pow(int.from_bytes(padded), pow(65537, -1, modulus - 1), modulus).to_bytes(length)
    RSAPublicNumbers(65537, modulus).public_key().verify(signature, message, PKCS1v15(), SHA256())


def test_what_is_stored_already_still_has_a_fingerprint() -> None:
    """A key that was certified before the rule can be revoked, and its certificates deleted."""
    for modulus in (2**2203 - 1, 131071 * P * Q, 2**16384 - 1):
        assert public_keys.fingerprint(rsa_line(65537, modulus)).startswith("SHA256:")


def test_the_longest_keys_are_those_that_can_be_looked_at() -> None:
    longest = {keys.parse_authorized_key: 8192, public_keys.check: 16384}
    for read, bits in longest.items():
        assert_refused(rsa_line(65537, 2**bits + 1), f"must be an RSA key of 2048 to {bits} bits", read)


def test_looking_at_a_modulus_costs_one_exponentiation_at_most() -> None:
    """Each further one would be a way to burn our CPU: the bound is twice what the library itself needs for one."""
    modulus = SystemRandom().getrandbits(4095) * 2**4097 + 1
    modulus += next(step for step in range(0, 2**20, 2) if gmpy2.gcd(modulus + step, gmpy2.primorial(2**17)) == 1)
    assert modulus.bit_length() <= 8192
    line = rsa_line(65537, modulus)
    keys.parse_authorized_key(line)  # which loads what all of them need
    spent = [least(partial(keys.parse_authorized_key, line)), least(partial(gmpy2.powmod, 2, modulus - 1, modulus))]
    assert spent[0] < 2 * spent[1]


def least(act: Callable[[], object]) -> float:
    """Return the least CPU time of three tries, in seconds."""
    times = []
    for _ in range(3):
        started = time.process_time()
        act()
        times.append(time.process_time() - started)
    return min(times)


@pytest.mark.parametrize("point", SMALL_ORDER, ids=hex)
def test_an_ed25519_key_of_small_order_is_refused_however_it_is_encoded(point: int) -> None:
    raw = point.to_bytes(32, "little")
    assert_refused(line("ssh-ed25519", raw), SIGNED_BY_ANYBODY)
    assert_refused(line("sk-ssh-ed25519@openssh.com", raw, b"ssh:"), SIGNED_BY_ANYBODY, public_keys.check)
    assert_refused(pem(Ed25519PublicKey.from_public_bytes(raw)), SIGNED_BY_ANYBODY, public_keys.check)


@pytest.mark.parametrize("point", SMALL_ORDER, ids=hex)
def test_anybody_can_sign_for_a_key_of_small_order(point: int) -> None:
    """Why such keys are refused: OpenSSL takes a signature that was made up, for one message in eight at least."""
    key = Ed25519PublicKey.from_public_bytes(point.to_bytes(32, "little"))
    made_up = (1).to_bytes(32, "little") + bytes(32)  # R is the neutral point, S is 0
    count = 0
    for message in range(200):
        try:
            key.verify(made_up, message.to_bytes(2))
            count += 1
        except InvalidSignature:
            pass
    assert count > 0


def test_points_that_lie_beside_those_of_small_order_are_taken() -> None:
    for point in (2, FIELD - 2, FIELD + 2, ORDER_8 + 1, FIELD - ORDER_8 - 1, 2**255 - 1):
        assert keys.parse_authorized_key(line("ssh-ed25519", point.to_bytes(32, "little")))
