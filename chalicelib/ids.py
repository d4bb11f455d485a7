"""Identifiers: a prefix and a KSUID. Ids sort by the time of creation.

A KSUID has 4 bytes of seconds since its epoch and 16 random bytes, encoded as 27 base62 characters.
"""

import re
import secrets
import threading
import time
from datetime import UTC, datetime

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_EPOCH = 1_400_000_000  # the KSUID epoch, in Unix seconds
_FORM = re.compile(r"[a-z]+_[0-9A-Za-z]{27}", flags=re.ASCII)

_lock = threading.Lock()
_last = 0


def new(prefix: str) -> str:
    """Return a new id that sorts after all earlier ids of this process."""
    global _last
    with _lock:
        fresh = (int(time.time()) - _EPOCH) << 128 | secrets.randbits(128)
        # A new random id of the same second could sort before the last id. If so, add a random step to the last id.
        _last = fresh if fresh > _last else _last + 1 + secrets.randbits(96)
        number = _last
    return _encode(prefix, number)


def first_at(prefix: str, second: int) -> str:
    """Return the smallest id of a Unix second. The id sorts after all ids of earlier seconds."""
    return _encode(prefix, max(0, second - _EPOCH) << 128)


def is_id(text: str, *prefixes: str) -> bool:
    """Return whether a text has the form of an id with one of the prefixes."""
    return bool(_FORM.fullmatch(text)) and text.partition("_")[0] in prefixes


def pattern(*prefixes: str) -> str:
    """Return a regular expression for ids with these prefixes. A prefix can be a regular expression."""
    prefix = prefixes[0] if len(prefixes) == 1 else f"(?:{'|'.join(prefixes)})"
    return f"^{prefix}_[0-9A-Za-z]{{27}}$"


def strip_prefix(id: str) -> str:
    """Return the 27 characters of an id after its prefix."""
    return id.rpartition("_")[2]


def created_at(id: str) -> datetime:
    """Return the time of creation encoded in an id (UTC, whole seconds)."""
    number = 0
    for digit in strip_prefix(id):
        number = number * 62 + _DIGITS.index(digit)
    return datetime.fromtimestamp((number >> 128) + _EPOCH, UTC)


def time_of(id: str) -> str:
    """Return the time of creation encoded in an id as RFC 3339 text, for example 2026-01-31T12:00:00Z."""
    return created_at(id).strftime("%Y-%m-%dT%H:%M:%SZ")


def _encode(prefix: str, number: int) -> str:
    digits = ""
    while len(digits) < 27:
        number, digit = divmod(number, 62)
        digits = _DIGITS[digit] + digits
    return f"{prefix}_{digits}"
