"""Shared keys: unique keys with several sharers of one account, and at most one exclusive owner.

For example, edges and reservations of an account share a base name, and a tunnel is its exclusive owner.

The record has the same form as the record of a unique key. `holder` is the exclusive owner, if any. `sharers` are the
paths of the items that share the key, and `account` is their account. When the last sharer releases the key, its
cooldown begins: until the Unix second `rests` no other account can take it. The `counts` of a write that takes or
releases a key change two numbers of the account: its `names` in use, and its names in `cooldown`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Protocol

from chalicelib import clock
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import OLDEST_FORMAT, Condition, Write
from chalicelib.storage.records import cooldowns, items, table
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import ID, Taken, UniqueKey

KINDS = frozenset({"tunnel_name"})  # the kinds of shared keys. 2.0.0 wrote records of these kinds without `sharers`

_NOBODY: Mapping[str, Any] = {"holder": None, "home": None, "successor": None, "body": {}}
_ALONE = "attribute_not_exists(#holder)"
_UNUSED = "attribute_not_exists(#sharers) AND (attribute_not_exists(#rests) OR #rests <= :now)"
_ADDED: Mapping[str, int] = {"names": 1}
_RELEASED: Mapping[str, int] = {"names": -1, "cooldown": 1}


class Endings(Protocol):
    """Finds out whether the exclusive owner of a key has ended, and records the end of this owner.

    An owner can have a lease, which can be in a separate record: a tunnel's lease is in the record of its gateway.
    `lease` is this separate record, or None if there is no separate record.
    """

    def find_lease(self, home: str, attributes: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return the primary key of the separate record with an owner's lease.

        Return None if the lease is in the record of the owner itself. `home` is the partition key of the owner,
        `attributes` are the attributes of the shared key.
        """

    def end_lease(self, item: Item, lease: Mapping[str, Any] | None) -> Sequence[Write] | None:
        """Return the writes that prevent a renewal of a lease that is over. Return None while the lease runs."""

    def record_end(self, item: Item, lease: Mapping[str, Any] | None) -> Sequence[Write]:
        """Return the writes that record the end of an item that held a key."""


def change(released: Sequence[UniqueKey], taken: Sequence[UniqueKey], scope: str, id: str) -> list[Write]:
    """Return the writes with which an item releases the keys `released` and takes the keys `taken`.

    The writes fail with Taken if the item cannot take a key. They also fail if the record of a key has changed since it
    was read. Raises aws.Unavailable.
    """
    account, shared = _account(scope), [key for key in taken if key.hold == "together"]
    records = table.read_records((key.scope, ID) for key in (*released, *shared))
    key_records = {key: records.get((key.scope, ID), {}) for key in (*released, *taken)}
    ends = {key.value: key_records[key]["rests"] for key in shared if _state(key_records[key], account) == "cooldown"}
    listed = cooldowns.read(account, ends.values())
    resumed = {value for value, end in ends.items() if end in listed and value in listed[end].values}
    until = clock.seconds() + cooldowns.PERIOD
    # Choose a second at which none of the records in `listed` ends. This transaction may change a record in `listed`,
    # and a transaction can write each record only once.
    while until in listed:
        until += 1
    releases = {key.value: _release(key_records[key], key, scope, id, until) for key in released if key_records[key]}
    begun = [value for value, write in releases.items() if write.counts]
    return [
        *(_take(key_records[key], key, scope, id, was_listed=key.value in resumed) for key in taken),
        *releases.values(),
        *([cooldowns.begin(account, until, begun)] if begun else []),
        *(record.remove(record.values & resumed) for record in listed.values() if record.values & resumed),
    ]


def take(key: UniqueKey, scope: str, id: str) -> Write:
    """Return the write that makes an item the exclusive owner of a key.

    The write fails with Taken if another item is the exclusive owner. It also fails with Taken if another account
    shares the key, or released the key less than a day ago. Other accounts are ignored if `hold` of the key is "over".
    """
    if key.hold == "over":
        return _write(key, scope, id, Condition(f"{_ALONE} OR #holder = :id", {"id": id}))
    values = {"now": clock.seconds(), "account": _account(scope), "id": id}
    return _write(
        key, scope, id, Condition(f"({_ALONE} OR #holder = :id) AND (#account = :account OR {_UNUSED})", values)
    )


def take_over(
    key: UniqueKey, scope: str, id: str, counts: Mapping[str, int], endings: Endings | None
) -> list[Write] | None:
    """Return the writes with which an item takes a key from its exclusive owner.

    The writes also delete the owner and record its end. Raises Taken unless the owner has ended, or was stored with the
    same `successor` as `key`. Return None if `counts` do not match the current record of the key: then the caller must
    build all its writes again. Raises aws.Unavailable.
    """
    record = dynamodb.get(key.scope, ID) or {}
    owner_id, home, state = record.get("holder"), record.get("home", ""), _state(record, _account(scope))
    if key.hold != "over" and state == "others":
        raise Taken(key, by=home)
    if not owner_id:
        return None if key.hold == "together" else [take(key, scope, id)]  # the owner has released the key meanwhile
    lapsed = items.require_lapsed()
    condition: Condition | None = Condition(f"attribute_not_exists(#id) OR {lapsed.text}", lapsed.values)
    item, lease, ending = _read_owner(record, endings)
    if key.successor and key.successor == record.get("successor"):
        condition, ending = None, None
    elif key.hold == "together" and _account(home) == _account(scope):
        return None
    elif ending is not None:
        condition = None
    elif item and item.is_live and (item.body or item.malformed):  # even a malformed owner keeps its key
        raise Taken(key, by=home)
    if key.hold == "together" and (state, counts) != ("free", _ADDED):
        return None
    return [
        _write(key, scope, id, _require_unchanged(record), after=_NOBODY, counts=counts),
        Write.delete(home, owner_id, condition, Taken(key)),
        *(replace(write, failing=Taken(key)) for write in ending or ()),
        *(endings.record_end(item, lease) if endings and item else ()),
    ]


def end_cooldown(key: UniqueKey, record: Mapping[str, Any], until: int) -> list[Write]:
    """Return the write that ends a key's cooldown. Return an empty list if the cooldown does not end at `until`."""
    if record.get("sharers") or record.get("rests") != until:
        return []
    if record.get("holder"):
        return [Write.update(key.scope, ID, _require_unchanged(record), sets={"rests": None}, adds={"revision": 1})]
    return [Write.delete(key.scope, ID, _require_unchanged(record))]


def _read_owner(
    record: Mapping[str, Any], endings: Endings | None
) -> tuple[Item | None, Mapping[str, Any] | None, Sequence[Write] | None]:
    """Return the exclusive owner of a key, the record with the owner's lease, and writes that end the lease.

    Each of the three can be None. The owner is None if no such item exists. The record and the writes are None if the
    owner has no separate record for its lease. The writes are also None while the lease runs.
    """
    item_key = record.get("home", ""), record["holder"]
    leased_at = endings.find_lease(item_key[0], record.get("body", {})) if endings else None
    before, lease = dynamodb.get_each(item_key, leased_at) if leased_at else (dynamodb.get(*item_key), None)
    item = Item.from_record(before) if before else None
    is_leased = item is not None and not (item.malformed or item.has_own_lease)
    return item, lease, endings.end_lease(item, lease) if endings and leased_at and item and is_leased else None


def _take(record: Mapping[str, Any], key: UniqueKey, scope: str, id: str, *, was_listed: bool) -> Write:
    """Return the write with which an item takes a key. `record` is the key's record as it was read."""
    if key.hold != "together":
        return take(key, scope, id)
    account = _account(scope)
    beside = Condition(f"({_ALONE} OR begins_with(#home, :own))", {"own": f"{account}#"})
    state = _state(record, account)
    if state == "held":
        unchanged = Condition("#account = :account AND attribute_exists(#sharers)", {"account": account})
    else:
        unchanged = _require_unchanged(record) if state == "cooldown" else Condition(_UNUSED, {"now": clock.seconds()})
    condition = Condition(f"{beside.text} AND {unchanged.text}", {**beside.values, **unchanged.values})
    counts = {} if state == "held" else {**_ADDED, **({"cooldown": -1} if was_listed else {})}
    return _write(key, scope, id, condition, counts=counts)


def _release(record: Mapping[str, Any], key: UniqueKey, scope: str, id: str, until: int) -> Write:
    """Return the write with which an item releases a key.

    If the item is the last one that shares the key, the key's cooldown begins. The record of a key that no item uses is
    deleted, unless it has a cooldown.
    """
    path = _path(scope, id)
    sharers = record.get("sharers", set())
    is_last = sharers == {path}
    is_held = record.get("holder", id) != id or bool(sharers - {path})
    rests = until if is_last else record.get("rests", 0)
    if not is_held and rests <= clock.seconds():
        return Write.delete(key.scope, ID, _require_unchanged(record))
    sets: Mapping[str, Any] = {
        **(_NOBODY if record.get("holder") == id else {}),
        **({"rests": rests} if is_last else {}),
        **({} if is_held else {"expires": rests}),
    }
    removes = {"sharers": {path}} if path in sharers else {}
    write = Write.update(key.scope, ID, _require_unchanged(record), sets=sets, adds={"revision": 1}, removes=removes)
    return replace(write, counts=_RELEASED if is_last else {})


def _state(record: Mapping[str, Any], account: str) -> Literal["free", "held", "cooldown", "others"]:
    """Return how sharers use a key, from the view of an account. An exclusive owner is ignored.

    "free": not at all; "held": the account shares it; "cooldown": the account released it within the last day;
    "others": another account shares it, or released it within the last day.
    """
    if not record.get("sharers") and record.get("rests", 0) <= clock.seconds():
        return "free"
    if record.get("account", "") != account:
        return "others"
    return "held" if record.get("sharers") else "cooldown"


def _write(
    key: UniqueKey,
    scope: str,
    id: str,
    condition: Condition,
    *,
    after: Mapping[str, Any] | None = None,
    counts: Mapping[str, int] | None = None,
) -> Write:
    """Return the write with which an item takes a key. It fails unless `condition` is true for the record of the key.

    `after` contains more attributes to set. The value None removes an attribute, for example the former owner's id.
    """
    sets: dict[str, Any] = {"schema": OLDEST_FORMAT, "expires": None, **(after or {})}
    if key.hold != "over":
        sets["account"] = _account(scope)
    if key.hold == "together":
        sets["rests"] = None
        adds: Mapping[str, Any] = {"sharers": {_path(scope, id)}, "revision": 1}
    else:
        ownership = {"holder": id, "home": scope, "successor": key.successor or None, "body": dict(key.attributes)}
        sets, adds = {**sets, **ownership}, {"revision": 1}
    write = Write.update(key.scope, ID, condition, sets=sets, adds=adds, failing=Taken(key))
    return replace(write, counts=counts or {})


def _require_unchanged(record: Mapping[str, Any]) -> Condition:
    return Condition("#revision = :revision", {"revision": record["revision"]})


def _account(scope: str) -> str:
    return scope.partition("#")[0]


def _path(scope: str, id: str) -> str:
    return f"{scope.partition('#')[2]}/{id}"
