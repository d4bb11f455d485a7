"""Limits on the number of items of an account. The limits also hold for parallel requests.

A stored count is never lower than the number of items. The transaction of each creation raises the count; deletions do
not lower it. A creation that would raise the count above the limit first counts the items.
"""

from contextlib import suppress

from chalicelib.model.base.records import LimitReached
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import OLDEST_FORMAT, Condition, ConditionFailed, Write
from chalicelib.storage.records import items, table

_PATH = "/counts"
_CHANGED = {"revision": 1}
_SCHEMA = {"schema": OLDEST_FORMAT}


class TooManyItems(LimitReached):
    """The account would have more items of a collection than permitted. The message is a sentence."""

    def __init__(self, account: str, path: str, limit: int, message: str) -> None:
        super().__init__(message)
        self.account, self.path, self.limit = account, path, limit

    def make_room(self) -> bool:
        """Count the items of the collection, and store this count. Return whether another item is permitted."""
        item_key = record_key(self.account, self.path)
        revision = (dynamodb.get(*item_key) or {}).get("revision")
        number = sum(1 for _ in table.read_all(items.scope(self.account, self.path)))
        if number >= self.limit:
            return False
        same = Condition("attribute_not_exists(#revision)")
        if revision is not None:
            same = Condition("#revision = :revision", {"revision": revision})
        with suppress(ConditionFailed):  # another transaction has stored a newer count meanwhile
            dynamodb.do(Write.update(*item_key, same, sets={"count": number}, adds=_CHANGED, defaults=_SCHEMA))
        return True


def add(account: str, path: str, limit: int, message: str) -> Write:
    """Return the write that counts a new item. It fails with TooManyItems unless the stored count is below `limit`."""
    failing = TooManyItems(account, path, limit, message)
    room = Condition("#count < :most", {"most": limit})
    return Write.update(*record_key(account, path), room, adds={"count": 1, **_CHANGED}, failing=failing)


def forget(account: str, path: str) -> Write:
    """Return the write that removes the stored count. Use the write when an item is created to which the limit does not
    apply. The next creation to which the limit applies counts all items again, and stores the count.
    """
    item_key = record_key(account, path)
    return Write.update(*item_key, Condition(""), sets={"count": None}, adds=_CHANGED, defaults=_SCHEMA)


def record_key(account: str, path: str) -> tuple[str, str]:
    """Return the primary key of the stored count of a collection."""
    return items.scope(account, _PATH), path.strip("/")
