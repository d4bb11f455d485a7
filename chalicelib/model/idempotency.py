"""Idempotency keys: for 24 hours, one key of one account stands for one request and what it made.

What it made is kept in the transaction that made it, without its modules, which the repeated request names again, and
without secrets, which would stay when it is deleted.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from chalicelib.storage import dynamodb, items
from chalicelib.storage.dynamodb import Condition, Write
from chalicelib.storage.items import Item
from chalicelib.storage.relations import Meaning

_ID = "request"
_KEPT_FOR = 24 * 60 * 60  # seconds


class Repeated(Exception):
    """Another request has used the key already."""


@dataclass(frozen=True)
class Done:
    """The digest of a key's request, the item that it made, and whether its response held a secret shown only once.

    One that was found has neither modules nor secrets.
    """

    digest: str
    item: Item
    once: bool


def find(account: str, key: str) -> Done | None:
    """Return the request that used a key in the last 24 hours, or None. One read. Raises aws.Unavailable."""
    record = dynamodb.get(_scope(account, key), _ID)
    if record is None or record["expires"] <= items.now():
        return None
    body = record["body"]
    return Done(body["digest"], Item.from_record(body["made"]), body["once"])


def keeping(account: str, key: str, done: Done) -> tuple[Write, Meaning]:
    """Return the write that records a key's request, and Repeated, which its failure means: the key was used."""
    made: Mapping[str, Any] = replace(done.item, modules={}, sealed={}).to_record()
    record = {
        "scope": _scope(account, key),
        "id": _ID,
        "body": {"digest": done.digest, "made": made, "once": done.once},
        "expires": items.now() + _KEPT_FOR,
        "revision": 1,
        "schema": items.SCHEMA,
    }
    free = Condition("attribute_not_exists(#id) OR #expires <= :now", {"now": items.now()})
    return dynamodb.putting(record, free), Repeated()


def _scope(account: str, key: str) -> str:
    return f"{account}#/idempotency/{hashlib.sha256(key.encode()).hexdigest()}"
