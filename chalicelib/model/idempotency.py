"""Idempotency keys: for 24 hours, one key of one account stands for one request and what it made.

What it made is kept in the transaction that made it, without its modules, which the repeated request names again, and
without secrets, which would stay when it is deleted.
"""

import hashlib
from dataclasses import dataclass, replace

from chalicelib import clock
from chalicelib.storage import dynamodb
from chalicelib.storage.dynamodb import Condition, Write
from chalicelib.storage.items import Item

_ID = "request"
_KEPT_FOR = 24 * 60 * 60  # seconds


class Repeated(Exception):
    """Another request has used the key already."""


@dataclass(frozen=True)
class Done:
    """The digest of a key's request, the item that it made, and whether its response held a secret shown only once.

    The item has neither modules nor secrets: those are not kept.
    """

    digest: str
    item: Item
    once: bool


@dataclass(frozen=True)
class Request:
    """A request that may be repeated: its account, its idempotency key, and the digest that tells it from others."""

    account: str
    key: str
    digest: str

    def find(self) -> Done | None:
        """Return the request that used the key in the last 24 hours, or None. One read. Raises aws.Unavailable."""
        record = dynamodb.get(self._scope, _ID)
        if record is None or record["expires"] <= clock.seconds():
            return None
        body = record["body"]
        return Done(body["digest"], Item.from_record(body["made"]), body["once"])

    def keep(self, item: Item, *, once: bool) -> Write:
        """Return the write that keeps the key for the request; it fails with Repeated where another one has it."""
        made = replace(item, modules={}, sealed={}).to_record()
        record = {
            "scope": self._scope,
            "id": _ID,
            "body": {"digest": self.digest, "made": made, "once": once},
            "expires": clock.seconds() + _KEPT_FOR,
            "revision": 1,
        }
        free = Condition("attribute_not_exists(#id) OR #expires <= :now", {"now": clock.seconds()})
        return Write.put(record, free, Repeated())

    @property
    def _scope(self) -> str:
        return f"{self.account}#/idempotency/{hashlib.sha256(self.key.encode()).hexdigest()}"
