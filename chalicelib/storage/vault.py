"""Encryption of secrets with KMS. Each secret is bound to one resource of one account.

Decrypted secrets stay in memory for at most five minutes, so that most signatures need no KMS call. A decrypted secret
is used for four and a half minutes. Every 30 seconds, a sweep removes older secrets.
"""

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar, cast

from botocore.exceptions import ClientError
from cachetools import TTLCache

from chalicelib.storage.client import aws

T = TypeVar("T")

_SWEEP = 30  # seconds between two sweeps of the cache

# KMS's and emulators' error codes for bytes that another key encrypted
_OTHER_KEY = ("IncorrectKeyException", "AccessDeniedException")
_opened: TTLCache[tuple[object, ...], object] = TTLCache(maxsize=1024, ttl=300 - _SWEEP)
_UNKNOWN = object()
_lock = threading.Lock()
# A separate variable, because an empty cache does not mean that no sweep is scheduled: entries can expire before it.
_is_sweep_scheduled = False


class Unreadable(Exception):
    """Encrypted bytes cannot be decrypted with their encryption context. The message is KMS's error code."""


def key_id() -> str:
    """Return the id or alias of the KMS key."""
    return os.environ.get("KEY_ID", "alias/tunnel-edge")


def second_key_id() -> str:
    """Return the id or alias of a second key for decryption, or "" if there is none.

    The second key is set while secrets move to another key.
    """
    return os.environ.get("SECOND_KEY_ID", "")


def context(account: str, id: str) -> dict[str, str]:
    """Return the KMS encryption context of a resource's secrets. Decryption requires the same context."""
    return {"account": account, "resource": id}


def seal(plaintext: bytes, context: Mapping[str, str], *, read: Callable[[bytes], object] | None = None) -> bytes:
    """Encrypt at most 4,096 bytes under a context. Raises aws.Unavailable.

    If `read` is set, the result of `read(plaintext)` is cached. Then `unseal` with the same `read` does not call KMS.
    """
    answer = aws.call("kms", "encrypt", KeyId=key_id(), Plaintext=plaintext, EncryptionContext=dict(context))
    sealed = cast(bytes, answer["CiphertextBlob"])
    if read:
        _remember((sealed, tuple(sorted(context.items())), read), read(plaintext))
    return sealed


def seal_text(text: str, context: Mapping[str, str], former: Iterable[bytes]) -> bytes:
    """Encrypt a text. Return b"" for an empty text. Raises aws.Unavailable.

    `former` are results of earlier calls. If one of them decrypts to the same text, it is returned. A new encryption
    would have other bytes, and look like a change of the secret.
    """
    same = (ciphertext for ciphertext in former if text and ciphertext and _has(ciphertext, context, text))
    if ciphertext := next(same, b""):
        return ciphertext
    return seal(text.encode(), context, read=bytes.decode) if text else b""


def check_key() -> None:
    """Encrypt a text that is not a secret, to test the key. Raises AwsError if the key cannot be used."""
    try:
        seal(b"health", context("acct_health", "health"))
    except ClientError as error:  # for example, KMS raises InvalidKeyUsageException for a key that cannot encrypt
        raise aws.Misconfigured(_code(error)) from None


def unseal(sealed: bytes, context: Mapping[str, str], read: Callable[[bytes], T]) -> T:
    """Decrypt bytes that `seal` returned, and convert the secret with `read`. The result is cached.

    Raises aws.Unavailable.
    """
    key = (sealed, tuple(sorted(context.items())), read)
    with _lock:
        # access the cache only once, because the entry could expire between two accesses
        if (known := _opened.get(key, _UNKNOWN)) is not _UNKNOWN:
            return cast(T, known)
    secret = read(_decrypt(sealed, context))
    _remember(key, secret)
    return secret


def unseal_readable(sealed: bytes, context: Mapping[str, str], read: Callable[[bytes], T]) -> T:
    """Decrypt like `unseal`, but raise Unreadable if the bytes cannot be decrypted. Raises aws.Unavailable."""
    try:
        return unseal(sealed, context, read)
    except ClientError as error:
        raise Unreadable(_code(error)) from None


def seal_again(sealed: bytes, context: Mapping[str, str], key: str) -> bytes | None:
    """Return the secret encrypted under the KMS key `key`. Return None if it is already encrypted under that key.

    KMS does not reveal the secret. Raises Unreadable, aws.Unavailable.
    """
    contexts = {"SourceEncryptionContext": dict(context), "DestinationEncryptionContext": dict(context)}
    try:
        answer = aws.call("kms", "re_encrypt", CiphertextBlob=sealed, DestinationKeyId=key, **contexts)
    except ClientError as error:
        raise Unreadable(_code(error)) from None
    return None if answer["SourceKeyId"] == answer["KeyId"] else cast(bytes, answer["CiphertextBlob"])


def _has(sealed: bytes, context: Mapping[str, str], text: str) -> bool:
    try:
        return unseal_readable(sealed, context, bytes.decode) == text
    except Unreadable:
        return False


def _decrypt(sealed: bytes, context: Mapping[str, str]) -> bytes:
    """Decrypt bytes with the KMS key. If another key encrypted them, use the second KMS key."""
    request = {"CiphertextBlob": sealed, "EncryptionContext": dict(context)}
    try:
        answer = aws.call("kms", "decrypt", KeyId=key_id(), **request)
    except (ClientError, aws.Misconfigured) as error:
        if not second_key_id() or _code(error) not in _OTHER_KEY:
            raise
        answer = aws.call("kms", "decrypt", KeyId=second_key_id(), **request)
    return cast(bytes, answer["Plaintext"])


def _code(error: ClientError | aws.Misconfigured) -> str:
    return error.code if isinstance(error, aws.Misconfigured) else str(error.response["Error"]["Code"])


def _remember(key: tuple[object, ...], secret: object) -> None:
    global _is_sweep_scheduled
    with _lock:
        if not _is_sweep_scheduled:
            _schedule_sweep()
        _is_sweep_scheduled = True
        _opened[key] = secret


def _schedule_sweep() -> None:
    timer = threading.Timer(_SWEEP, _sweep)
    timer.daemon = True
    timer.start()


def _sweep() -> None:
    global _is_sweep_scheduled
    with _lock:
        _opened.expire()
        _is_sweep_scheduled = bool(_opened)
        if _is_sweep_scheduled:
            _schedule_sweep()
