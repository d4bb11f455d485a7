"""The vault (KMS): seals secrets for one resource of one account, and opens them only where they are used.

What was opened stays in memory for at most five minutes, so that a signature does not cost a call to KMS: for four
and a half it may be used, and every half a minute what is older is dropped.
"""

import os
import threading
from collections.abc import Callable, Mapping
from typing import TypeVar, cast

from cachetools import TTLCache

from chalicelib.storage import aws

T = TypeVar("T")

_SWEEP = 30  # seconds
_opened: TTLCache[tuple[object, ...], object] = TTLCache(maxsize=1024, ttl=300 - _SWEEP)
_UNKNOWN = object()
_lock = threading.Lock()
_sweeping = False  # whether a sweep is to come; nothing remembered does not tell, since it expires before it is swept


def key_id() -> str:
    return os.environ.get("KEY_ID", "alias/tunnel-edge")


def context(account: str, id: str) -> dict[str, str]:
    """Return the KMS encryption context of a resource's secrets: they can be decrypted with the same one only."""
    return {"account": account, "resource": id}


def seal(plaintext: bytes, context: Mapping[str, str], *, read: Callable[[bytes], object] | None = None) -> bytes:
    """Encrypt at most 4,096 bytes; only the same context opens them again. Raises aws.Unavailable.

    With `read`, what it makes of them stays in memory, as if they had been opened: for what is shown next.
    """
    answer = aws.call("kms", "encrypt", KeyId=key_id(), Plaintext=plaintext, EncryptionContext=dict(context))
    sealed = cast(bytes, answer["CiphertextBlob"])
    if read:
        _remember((sealed, tuple(sorted(context.items())), read), read(plaintext))
    return sealed


def unseal(sealed: bytes, context: Mapping[str, str], read: Callable[[bytes], T]) -> T:
    """Open sealed bytes and return what `read` makes of them, from memory if it can. Raises aws.Unavailable."""
    key = (sealed, tuple(sorted(context.items())), read)
    with _lock:
        if (known := _opened.get(key, _UNKNOWN)) is not _UNKNOWN:  # it may end between two looks
            return cast(T, known)
    answer = aws.call("kms", "decrypt", KeyId=key_id(), CiphertextBlob=sealed, EncryptionContext=dict(context))
    secret = read(answer["Plaintext"])
    _remember(key, secret)
    return secret


def _remember(key: tuple[object, ...], secret: object) -> None:
    global _sweeping
    with _lock:
        if not _sweeping:
            _sweep_later()
        _sweeping = True
        _opened[key] = secret


def _sweep_later() -> None:
    timer = threading.Timer(_SWEEP, _sweep)
    timer.daemon = True
    timer.start()


def _sweep() -> None:
    global _sweeping
    with _lock:
        _opened.expire()
        _sweeping = bool(_opened)
        if _sweeping:
            _sweep_later()
