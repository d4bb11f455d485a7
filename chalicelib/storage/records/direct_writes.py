"""Writes without an audit event, for example of leases, unique keys, and hidden values (never in responses)."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, ConditionFailed, TransactionFailed, Write
from chalicelib.storage.records import change_log, item_keys, items, unique_keys
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import UniqueKey

_AT_ONCE = 100  # the most writes in one transaction


def spread(collection: str) -> None:
    """Store the marker of a collection that is divided into shards. Raises aws.Unavailable.

    From now on, this process puts new items of the collection into the shards.
    """
    dynamodb.do(Write.update(collection, item_keys.MARK, Condition(""), adds={"revision": 1}))
    item_keys.spread(collection)


def drop(item: Item) -> None:
    """Remove an item that has only modules, and no body. Raises ConditionFailed, aws.Unavailable."""
    dynamodb.do(Write.delete(*item.key, Condition("attribute_not_exists(#body)")))


def set_attributes(kind: str, value: str, attributes: Mapping[str, Any]) -> bool:
    """Set attributes in a unique key's record. Return False if the record does not exist. Raises aws.Unavailable."""
    try:
        dynamodb.do(_set_attributes(UniqueKey(kind, value), attributes))
    except ConditionFailed:
        return False
    return True


def set_once(key: UniqueKey, name: str, value: Any) -> None:
    """Set an attribute in a unique key's record. Raises aws.Unavailable.

    Does nothing if the attribute is set already, or if the record does not exist.
    """
    lacking = Condition(f"attribute_exists(#id) AND attribute_not_exists(#body.#{name})")
    with suppress(ConditionFailed):
        dynamodb.do(Write.update(key.scope, unique_keys.ID, lacking, sets={f"body.{name}": value}))


def set_all(changes: Sequence[tuple[UniqueKey, Mapping[str, Any]]], *, checks: Sequence[Write] = ()) -> bool:
    """Set attributes in the records of unique keys, in transactions. Skips records that do not exist.

    Each transaction also contains `checks`. Return False if a check fails. Then earlier transactions may have set
    attributes already. Raises aws.Unavailable.
    """
    count = _AT_ONCE - len(checks)
    for start in range(0, len(changes), count):
        writes = [_set_attributes(key, sets) for key, sets in changes[start : start + count]]
        while writes:
            try:
                dynamodb.transact([*checks, *writes])
                break
            except TransactionFailed as failed:
                if failed.indexes[0] < len(checks):
                    return False
                writes = [write for index, write in enumerate(writes, len(checks)) if index not in failed.indexes]
    return True


def exchange(before: Item, after: Item) -> Item | None:
    """Replace an item by a new state. Return the new item. Raises aws.Unavailable.

    Return None if the item has changed since `before` was read.
    """
    try:
        return Item.from_record(dynamodb.do(items.rewrite(before, after)))
    except ConditionFailed:
        return None


def renew(scope: str, id: str, *, lease: int) -> bool:
    """Set the Unix second at which an item's lease ends. Return False if the lease is over. Raises aws.Unavailable."""
    return do_if(_renew_lease(scope, id, lease))


def do_if(write: Write) -> bool:
    """Do a write without an entry in the change log. Return False if its condition is false. Raises aws.Unavailable."""
    try:
        dynamodb.do(write)
    except ConditionFailed:
        return False
    return True


def do_logged(write: Write) -> bool:
    """Do a write with an entry in the change log. Return False if its condition is false. Raises aws.Unavailable."""
    try:
        dynamodb.transact([write, *change_log.entries([write])])
    except TransactionFailed:
        return False
    return True


def set_mark(item: Item, name: str, value: Any) -> None:
    """Set a hidden value of an item, which responses never show. If `value` is None, remove it. Raises aws.Unavailable.

    The item's revision does not change. Does nothing if the record has no attribute `unseen`.
    """
    marked = Condition("attribute_exists(#unseen)")
    with suppress(ConditionFailed):
        dynamodb.do(Write.update(*item.key, marked, sets={f"unseen.{name}": value}))


def merge(scope: str, id: str, body: Mapping[str, Any], **attributes: int) -> None:
    """Set attributes of a record, and fields of its body. Raises aws.Unavailable.

    The body's other fields are unchanged. Creates the record if it does not exist.
    """
    sets = {**{f"body.{name}": value for name, value in body.items()}, **attributes}
    try:
        dynamodb.do(Write.update(scope, id, Condition("attribute_exists(#body)"), sets=sets, adds={"revision": 1}))
    except ConditionFailed:
        dynamodb.do(Write.put({"scope": scope, "id": id, "body": dict(body), "revision": 1, **attributes}))


def _set_attributes(key: UniqueKey, attributes: Mapping[str, Any]) -> Write:
    sets = {f"body.{name}": value for name, value in attributes.items()}
    return Write.update(key.scope, unique_keys.ID, Condition("attribute_exists(#id)"), sets=sets)


def _renew_lease(scope: str, id: str, lease: int) -> Write:
    return Write.update(scope, id, items.require_live(), sets=items.build_lease(lease))
