"""Idempotency keys: a key of an account identifies one request and the item it created, for 24 hours.

The transaction that creates an item also stores a copy of the item with the key. The copy has no modules, because a
repeated request contains them again, and no secrets, because the copy can outlive the item.
"""

import hashlib
from dataclasses import dataclass, replace

from chalicelib import clock
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, Write
from chalicelib.storage.records.items import Item

_ID = "request"
_KEPT_FOR = 24 * 60 * 60  # seconds for which an idempotency key is stored


class Repeated(Exception):
    """Another request has already used the idempotency key."""


@dataclass(frozen=True)
class Done:
    """The result of an earlier request with the same idempotency key.

    `digest` is the digest of this request. `item` is the item that it created, without modules and secrets. `once` is
    true if its response contained a secret. Such a response cannot be repeated, because a secret is shown only once.
    """

    digest: str
    item: Item
    once: bool


@dataclass(frozen=True)
class Request:
    """A request with an idempotency key. `digest` is the digest of its API key, path and body."""

    account: str
    key: str
    digest: str

    def find(self) -> Done | None:
        """Return the result of an earlier request with this key, or None. One read. Raises aws.Unavailable."""
        record = dynamodb.get(self._scope, _ID)
        if record is None or record["expires"] <= clock.seconds():
            return None
        body = record["body"]
        return Done(body["digest"], Item.from_record(body["made"]), body["once"])

    def keep(self, item: Item, *, once: bool) -> Write:
        """Return the write that stores the idempotency key.

        The write fails with Repeated if another request has stored the key.
        """
        item_record = replace(item, modules={}, sealed={}).to_record()
        record = {
            "scope": self._scope,
            "id": _ID,
            "body": {"digest": self.digest, "made": item_record, "once": once},
            "expires": clock.seconds() + _KEPT_FOR,
            "revision": 1,
        }
        free = Condition("attribute_not_exists(#id) OR #expires <= :now", {"now": clock.seconds()})
        return Write.put(record, free, Repeated())

    @property
    def _scope(self) -> str:
        return f"{self.account}#/idempotency/{hashlib.sha256(self.key.encode()).hexdigest()}"
