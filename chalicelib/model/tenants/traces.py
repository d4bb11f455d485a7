"""Removes the records that are left after an account's resources were deleted.

Records of two kinds are not removed at once. A revocation list stays until its last entry has ended. The record of a
released name stays for a day, the cooldown of the name, so that no other account can take the name. In these records, a
digest replaces the account's id.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal

from chalicelib import clock
from chalicelib.model.tenants import portable, record_classes
from chalicelib.storage.client import dynamodb, queries
from chalicelib.storage.client.dynamodb import Condition, ConditionFailed, Write
from chalicelib.storage.records import change_log, cooldowns

Record = Mapping[str, Any]
Events = Literal["keep", "delete"]
_EXISTS = Condition("attribute_exists(#id)")
# attributes in the record of a name that refer to resources of the account
_OWN = ("holder", "home", "successor", "sharers")


def is_trail(record: Record) -> bool:
    """Return whether a record is an audit event, or part of an index of audit events. Raises UnclassifiedRecord."""
    return record_classes.classify(record["scope"], record["id"]).removal == "trail"


def remove(record: Record, account: str) -> None:
    """Remove a record that contains the id of an account. If the record must stay, remove only the id.

    Does nothing if the record changes meanwhile. Raises UnclassifiedRecord, aws.Unavailable.
    """
    item_key, removal = (record["scope"], record["id"]), record_classes.classify(record["scope"], record["id"]).removal
    if removal == "list":
        write = Write.update(*item_key, _EXISTS, sets={"body.account": portable.digest(account)})
    elif removal == "name":
        write = _release(record, account)
    else:
        write = Write.delete(*item_key, _require_unchanged(record))
    with suppress(ConditionFailed):  # another process has changed the record; the next scan finds it again
        dynamodb.do(write)


def find_changes(account: str) -> Iterator[Record]:
    """Yield the entries of the change log that contain the id of an account. Raises aws.Unavailable."""
    for shard in change_log.SHARDS:
        for page in queries.read_pages({"scope": shard}, limit=None, KeyConditionExpression="#scope = :scope"):
            yield from (
                entry for entry in page if len(_list_other_item_keys(entry, account)) < len(entry["body"]["places"])
            )


def forget_changes(account: str) -> int:
    """Remove the ids of an account from the change log. Return the number of changed entries.

    Call this function after all edge hosts have read these entries. Raises aws.Unavailable.
    """
    entries = list(find_changes(account))
    for entry in entries:
        with suppress(ConditionFailed):  # the entry of the change log has expired meanwhile
            dynamodb.do(_remove_item_keys(entry, _list_other_item_keys(entry, account)))
    return len(entries)


def _list_other_item_keys(entry: Record, account: str) -> list[list[str]]:
    """Return the primary keys in an entry of the change log that do not contain the account's id."""
    return [item_key for item_key in entry["body"]["places"] if not any(account in text for text in item_key)]


def _remove_item_keys(entry: Record, item_keys: list[list[str]]) -> Write:
    item_key = entry["scope"], entry["id"]
    return (
        Write.update(*item_key, Condition("attribute_exists(#body)"), sets={"body.places": item_keys})
        if item_keys
        else Write.delete(*item_key)
    )


def _release(record: Record, account: str) -> Write:
    """Return the write that removes an account from the record of a name.

    Only the name's cooldown and the operator's ban stay in the record. Without both, the record is deleted.
    """
    item_key, now = (record["scope"], record["id"]), clock.seconds()
    is_own = record.get("account") == account
    is_banned = bool(record.get("holder")) and not str(record.get("home", "")).startswith(f"{account}#")
    until = record.get("rests", 0)
    if is_own and record.get("sharers"):
        until = now + cooldowns.PERIOD
    if until <= now and not is_banned:
        return Write.delete(*item_key, _require_unchanged(record))
    attributes = {"sharers": None} if is_banned else {**dict.fromkeys(_OWN), "body": {}, "expires": until}
    owner = {"account": portable.digest(account) if until > now else None, "rests": until if until > now else None}
    return Write.update(*item_key, _require_unchanged(record), sets={**attributes, **owner}, adds={"revision": 1})


def _require_unchanged(record: Record) -> Condition:
    if "revision" not in record:
        return Condition("attribute_exists(#id) AND attribute_not_exists(#revision)")
    return Condition("#revision = :revision", {"revision": record["revision"]})
