"""Keys of the sign-in service: one signs session tokens, one encrypts states. A pair is replaced every 30 days.

A pair is published an hour before it signs, until an hour after the next one signs. The public key is stored in
clear beside the sealed ones: control reads only that.
"""

import base64
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)

from chalicelib.model.base.records import Stored
from chalicelib.storage import vault
from chalicelib.storage.client import dynamodb, queries
from chalicelib.storage.client.dynamodb import Condition, ConditionFailed, Write
from chalicelib.storage.records.decoding import MalformedRecord

SCOPE = "sign_in_keys"
CONTEXT = vault.context("edge", "sign-in")
PERIOD = 30 * 24 * 60 * 60  # seconds for which a pair signs
MARGIN = 60 * 60  # seconds before and after, for which it is published
_ABSENT = Condition("attribute_not_exists(#id)")
_STATE_KEY = 32  # bytes
_SLACK = 7 * 24 * 60 * 60  # seconds: a pair without a successor signs until its record expires


@dataclass(frozen=True, kw_only=True)
class KeyPair(Stored):
    """A signing key and a key of states. `signs_from` is a Unix second, `public` a key set's entry (RFC 7517)."""

    kid: str
    signs_from: int
    public: Mapping[str, str]
    sealed: bytes


@dataclass(frozen=True)
class PrivateKeys:
    """The private keys of a pair: an EC key, and 32 bytes for AES."""

    private: ec.EllipticCurvePrivateKey
    state_key: bytes


def read() -> list[KeyPair]:
    """Return all pairs, the oldest first. One query. Raises aws.Unavailable."""
    pages = queries.pages({"scope": SCOPE}, limit=None, KeyConditionExpression="#scope = :scope")
    return sorted(_decode(record for page in pages for record in page), key=lambda it: (it.signs_from, it.kid))


def choose(pairs: Sequence[KeyPair], now: int) -> KeyPair | None:
    """Return the pair that signs now: the newest that has begun, otherwise the oldest. None without pairs."""
    begun = [it for it in pairs if it.signs_from <= now]
    return begun[-1] if begun else next(iter(pairs), None)


def published(pairs: Sequence[KeyPair], now: int) -> list[KeyPair]:
    """Return the pairs that count: their successor, if any, has not signed for longer than MARGIN."""
    following = [*(it.signs_from for it in pairs[1:]), None]
    return [it for it, start in zip(pairs, following, strict=True) if start is None or now < start + MARGIN]


def next_start(pairs: Sequence[KeyPair], now: int) -> int | None:
    """Return the Unix second from which a pair to be created now signs, or None if no new one is due."""
    if not pairs:
        return now
    start = pairs[-1].signs_from + PERIOD
    return max(start, now + MARGIN) if now >= start - MARGIN else None


def create(signs_from: int) -> bool:
    """Store a new pair. Return False if another process has stored one for this time. Raises aws.Unavailable."""
    private = ec.generate_private_key(ec.SECP256R1())
    kid = f"{signs_from:x}"
    der = private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    secret = json.dumps({"private": _text(der), "state": _text(os.urandom(_STATE_KEY))}).encode()
    pair = KeyPair(kid=kid, signs_from=signs_from, public=_public(kid, private), sealed=vault.seal(secret, CONTEXT))
    expires = signs_from + PERIOD + _SLACK
    record = {"scope": SCOPE, "id": kid, "body": pair.to_record(), "revision": 1, "expires": expires}
    try:
        dynamodb.do(Write.put(record, _ABSENT))
    except ConditionFailed:
        return False
    return True


def rotate(now: int) -> None:
    """Replace all pairs at once. Session tokens and states of the old ones are no longer accepted.

    Raises aws.Unavailable.
    """
    old = read()
    create(now)
    for pair in old:
        dynamodb.do(Write.delete(SCOPE, pair.kid))


def unseal(pair: KeyPair) -> PrivateKeys:
    """Return the private keys of a pair. Raises aws.Unavailable."""
    return vault.unseal(pair.sealed, CONTEXT, _parse)


def _parse(plain: bytes) -> PrivateKeys:
    found = json.loads(plain)
    private = load_der_private_key(base64.b64decode(found["private"]), None)
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise TypeError("not an EC key")
    return PrivateKeys(private, base64.b64decode(found["state"]))


def _public(kid: str, private: ec.EllipticCurvePrivateKey) -> dict[str, str]:
    made: Mapping[str, Any] = jwt.algorithms.ECAlgorithm.to_jwk(private.public_key(), as_dict=True)
    return {**{name: str(it) for name, it in made.items()}, "kid": kid, "alg": "ES256", "use": "sig"}


def _decode(records: Iterable[Mapping[str, Any]]) -> Iterable[KeyPair]:
    for record in records:
        try:
            yield KeyPair.of(record.get("body", {}))
        except MalformedRecord:
            continue


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
