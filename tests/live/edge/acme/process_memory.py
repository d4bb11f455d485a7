"""The memory of a process, as a core dump has it, and private keys in it."""

import base64
import re
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

_REGION = re.compile(r"([0-9a-f]+)-([0-9a-f]+) r\S+ \S+ \S+ \S+ *(.*)")


def read(pid: int) -> list[bytes] | None:
    """Return the readable regions of the memory of a process, or None if they must not be read."""
    contents = []
    try:
        regions = Path(f"/proc/{pid}/maps").read_text().splitlines()
        with Path(f"/proc/{pid}/mem").open("rb") as memory:
            for start, end, name in (match.groups() for line in regions if (match := _REGION.match(line))):
                if not name.startswith("[v"):  # the kernel's own pages
                    memory.seek(int(start, 16))
                    contents.append(memory.read(int(end, 16) - int(start, 16)))
    except PermissionError:
        return None
    return contents


def find(memory: list[bytes], key: bytes) -> list[str]:
    """Return the forms in which a private key (DER) is in memory: whole, as PEM, or its secret numbers."""
    lines = base64.encodebytes(key).split()
    forms = {"DER": key, "PEM": lines[len(lines) // 2]}
    for index, number in enumerate(_secrets(key)):
        size = (number.bit_length() + 63) // 64 * 8  # whole words, as libraries store numbers
        forms |= {f"{order} {index}": number.to_bytes(size, order) for order in ("big", "little")}
        forms |= {f"decimal {index}": str(number).encode(), f"hexadecimal {index}": f"{number:x}".encode()}
    return [name for name, form in forms.items() if any(form in region for region in memory)]


def _secrets(key: bytes) -> list[int]:
    """Return the secret numbers of a key."""
    private = serialization.load_der_private_key(key, None)
    if isinstance(private, EllipticCurvePrivateKey):
        return [private.private_numbers().private_value]
    assert isinstance(private, RSAPrivateKey)
    numbers = private.private_numbers()
    return [numbers.d, numbers.p, numbers.q, numbers.dmp1, numbers.dmq1]
