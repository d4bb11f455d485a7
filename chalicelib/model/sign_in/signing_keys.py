"""Keys of the sign-in service in pairs: one key signs session tokens, the other encrypts the OAuth parameter `state`.

A pair is replaced every 30 days. It is published from an hour before it signs until an hour after the next pair begins
to sign. The public key is stored unencrypted, because the edge's control process reads only this key.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chalicelib.model.base.records import Stored
from chalicelib.storage import vault
from chalicelib.storage.client import dynamodb, queries
from chalicelib.storage.client.dynamodb import Condition, ConditionFailed, Write
from chalicelib.storage.records.decoding import MalformedRecord

SCOPE = "sign_in_keys"
CONTEXT = vault.context("edge", "sign-in")
PERIOD = 30 * 24 * 60 * 60  # seconds for which a key pair signs session tokens
# seconds for which a key pair is published before it signs first, and again after the next pair signs first
MARGIN = 60 * 60
_ABSENT = Condition("attribute_not_exists(#id)")
# seconds from the end of a pair's PERIOD until its record expires, so that sign-in continues if no new pair is made
_SLACK = 7 * 24 * 60 * 60


@dataclass(frozen=True, kw_only=True)
class KeyPair(Stored):
    """A key that signs session tokens, and a key that encrypts `state`.

    The pair is used from the Unix second `signs_from`. `public` is the entry of the public key in a key set (RFC 7517).
    """

    kid: str
    signs_from: int
    public: Mapping[str, str]
    sealed: bytes


def read() -> list[KeyPair]:
    """Return all stored key pairs, oldest first. One query. Raises aws.Unavailable."""
    pages = queries.read_pages({"scope": SCOPE}, limit=None, KeyConditionExpression="#scope = :scope")
    return sorted(_decode(record for page in pages for record in page), key=lambda pair: (pair.signs_from, pair.kid))


def choose(pairs: Sequence[KeyPair], now: int) -> KeyPair | None:
    """Return the key pair to use: the newest with a past `signs_from`, or else the oldest.

    Return None if there are no pairs.
    """
    begun = [pair for pair in pairs if pair.signs_from <= now]
    return begun[-1] if begun else next(iter(pairs), None)


def list_published(pairs: Sequence[KeyPair], now: int) -> list[KeyPair]:
    """Return the key pairs to publish.

    A pair is published until MARGIN seconds after the next pair began to sign.
    """
    replaced = sum(now >= pair.signs_from + MARGIN for pair in pairs[1:])
    return list(pairs[replaced:])


def next_start(pairs: Sequence[KeyPair], now: int) -> int | None:
    """Return the Unix second from which a new key pair signs. Return None if no new pair is due."""
    if not pairs:
        return now
    start = pairs[-1].signs_from + PERIOD
    return max(start, now + MARGIN) if now >= start - MARGIN else None


def create(kid: str, signs_from: int, public: Mapping[str, str], sealed: bytes) -> bool:
    """Store a new key pair. Return False if a pair with this `kid` is stored already. Raises aws.Unavailable."""
    pair = KeyPair(kid=kid, signs_from=signs_from, public=public, sealed=sealed)
    expires = signs_from + PERIOD + _SLACK
    record = {"scope": SCOPE, "id": kid, "body": pair.to_record(), "revision": 1, "expires": expires}
    try:
        dynamodb.do(Write.put(record, _ABSENT))
    except ConditionFailed:
        return False
    return True


def remove_all() -> int:
    """Remove all key pairs, and return their number. The sign-in service then creates a new pair.

    Raises aws.Unavailable.
    """
    pairs = read()
    for pair in pairs:
        dynamodb.do(Write.delete(SCOPE, pair.kid))
    return len(pairs)


def _decode(records: Iterable[Mapping[str, Any]]) -> Iterable[KeyPair]:
    for record in records:
        try:
            yield KeyPair.of(record.get("body", {}))
        except MalformedRecord:
            continue
