"""Public keys that anybody could use, found by arithmetic so cheap that every key can be looked at.

It finds what mistakes and jokes leave behind. That it finds nothing proves nothing.
"""

from functools import cache
from math import gcd, isqrt, prod

_TRIAL_DIVISION_LIMIT = 8192
_FERMAT_STEPS = 100
_SQUARES_MODULO_64 = {number * number % 64 for number in range(64)}

_FIELD = 2**255 - 19  # Curve25519's (RFC 8032, 5.1)
_D = -121665 * pow(121666, -1, _FIELD)


def is_easily_factored(modulus: int) -> bool:
    """Tell whether an RSA modulus has a small factor, or two factors that are nearly equal."""
    return gcd(modulus, _small_primes()) > 1 or _has_close_factors(modulus)


def has_small_order(key: bytes) -> bool:
    """Tell whether an Ed25519 public key is a point of order 1, 2, 4 or 8, for which anybody can forge signatures.

    The sign of x and whether y is below the field's prime make no difference, so every encoding is found.
    """
    y = (int.from_bytes(key, "little") & (1 << 255) - 1) % _FIELD
    is_of_order_8 = (_D * y**4 + 2 * y**2 - 1) % _FIELD == 0  # twice the point has y = 0, so it has x² = -y²
    return y in (0, 1, _FIELD - 1) or is_of_order_8


@cache
def _small_primes() -> int:
    """Return the product of the primes that are tried."""
    is_prime = bytearray([0, 0]) + bytearray([1]) * (_TRIAL_DIVISION_LIMIT - 2)
    for number in range(2, isqrt(_TRIAL_DIVISION_LIMIT) + 1):
        multiples = range(number * number, _TRIAL_DIVISION_LIMIT, number)
        is_prime[number * number :: number] = bytes(len(multiples))
    return prod(number for number in range(_TRIAL_DIVISION_LIMIT) if is_prime[number])


def _has_close_factors(modulus: int) -> bool:
    """Look for two squares that differ by the modulus, the larger one just above it (Fermat's method)."""
    root = isqrt(modulus - 1) + 1
    difference = root * root - modulus
    for _ in range(_FERMAT_STEPS):
        if _is_square(difference):
            return True
        difference += 2 * root + 1
        root += 1
    return False


def _is_square(number: int) -> bool:
    return number % 64 in _SQUARES_MODULO_64 and isqrt(number) ** 2 == number
