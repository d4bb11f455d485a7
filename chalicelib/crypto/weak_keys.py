"""Public keys that anybody could use, found by arithmetic so cheap that every new key can be looked at.

It finds what mistakes and jokes leave behind. That it finds nothing proves nothing.
"""

from functools import cache
from typing import Any

# GMP is imported where an RSA key is looked at: no other request waits for it, and the edge lacks it.

_TRIAL_DIVISION_LIMIT = 2**17
_FERMAT_STEPS = 100

_FIELD = 2**255 - 19  # Curve25519's (RFC 8032, 5.1)
_D = -121665 * pow(121666, -1, _FIELD)


def is_easily_factored(modulus: int) -> bool:
    """Tell whether an RSA modulus has a small factor, or two factors that are nearly equal."""
    import gmpy2

    return bool(gmpy2.gcd(modulus, _small_primes()) > 1 or _has_close_factors(gmpy2.mpz(modulus)))


def is_prime(modulus: int) -> bool:
    """Tell whether an RSA modulus is a prime, so that the private key follows from the public one.

    One test of Fermat's, to the base 2: 2.3 ms of CPU at 2,048 bits, 15 at 4,096, 0.5 s at 16,384.
    """
    import gmpy2

    return bool(gmpy2.is_fermat_prp(modulus, 2))


def has_small_order(key: bytes) -> bool:
    """Tell whether an Ed25519 public key is a point of order 1, 2, 4 or 8, for which anybody can forge signatures.

    The sign of x and whether y is below the field's prime make no difference, so every encoding is found.
    """
    y = (int.from_bytes(key, "little") & (1 << 255) - 1) % _FIELD
    is_of_order_8 = (_D * y**4 + 2 * y**2 - 1) % _FIELD == 0  # twice the point has y = 0, so it has x² = -y²
    return y in (0, 1, _FIELD - 1) or is_of_order_8


@cache
def _small_primes() -> Any:
    """Return the product of the primes that are tried."""
    import gmpy2

    return gmpy2.primorial(_TRIAL_DIVISION_LIMIT)


def _has_close_factors(modulus: Any) -> bool:
    """Look for two squares that differ by the modulus, the larger one just above it (Fermat's method)."""
    import gmpy2

    root = gmpy2.isqrt(modulus - 1) + 1
    return any(gmpy2.is_square((root + step) ** 2 - modulus) for step in range(_FERMAT_STEPS))
