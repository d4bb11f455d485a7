"""Shared keys: unique keys that several items of one account, and one exclusive holder, can hold at once.

The record is that of a unique key: its holder, if it has one, holds it by itself. `sharers` are the paths of those that
hold it together, `account` theirs. A key that nobody holds may rest: until the second `rests` it is that account's.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chalicelib import clock
from chalicelib.storage import dynamodb, items, table
from chalicelib.storage.dynamodb import SCHEMA, Condition, Write
from chalicelib.storage.items import Item
from chalicelib.storage.unique_keys import ID, Taken, UniqueKey

KINDS = frozenset({"tunnel_name"})  # of what tunnels had for themselves once: their records are still read

_NOBODY: Mapping[str, Any] = {"holder": None, "home": None, "successor": None, "body": {}}


def take(key: UniqueKey, scope: str, id: str) -> Write:
    """Return the write that takes the key for an item; Taken, if it is held by what the item cannot hold it with."""
    account, values = _account(scope), {"now": clock.seconds(), "account": _account(scope)}
    alone = "attribute_not_exists(#holder)"
    if key.hold == "over":
        return _write(key, scope, id, Condition(f"{alone} OR #holder = :id", {"id": id}))
    own = "(#account = :account OR attribute_not_exists(#sharers) AND (attribute_not_exists(#rests) OR #rests <= :now))"
    if key.hold == "together":
        beside = f"({alone} OR begins_with(#home, :own)) AND {own}"
        return _write(key, scope, id, Condition(beside, {**values, "own": f"{account}#"}))
    return _write(key, scope, id, Condition(f"({alone} OR #holder = :id) AND {own}", {**values, "id": id}))


def take_over(key: UniqueKey, scope: str, id: str, ended: Callable[[Item], Sequence[Write]]) -> list[Write]:
    """Return the writes that take a key that was found taken, where its holder is gone or has the same successor.

    The holder is removed, and `ended` returns the writes that tell of it.

    Raises Taken where it may keep it; aws.Unavailable.
    """
    record = dynamodb.get(key.scope, ID) or {}
    holder, home = record.get("holder"), record.get("home", "")
    is_kept = bool(record.get("sharers")) or record.get("rests", 0) > clock.seconds()
    if key.hold != "over" and is_kept and record.get("account", "") != _account(scope):
        raise Taken(key, by=home)
    if not holder:
        return [take(key, scope, id)]  # it was released meanwhile
    lapsed = items.lapsed()
    gone: Condition | None = Condition(f"attribute_not_exists(#id) OR {lapsed.text}", lapsed.values)
    before = dynamodb.get(home, holder)
    if key.successor and key.successor == record.get("successor"):
        gone = None
    elif table.of_record(before):
        raise Taken(key, by=home)
    told = ended(Item.from_record(before)) if before else ()
    return [_write(key, scope, id, _same(record), after=_NOBODY), Write.delete(home, holder, gone), *told]


def release(key: UniqueKey, scope: str, id: str) -> list[Write]:
    """Return the writes by which an item holds the key no more; a key that nobody holds and that does not rest is gone.

    They fail where the record changes meanwhile. Raises aws.Unavailable.
    """
    record = dynamodb.get(key.scope, ID)
    if record is None:
        return []
    path, now = _path(scope, id), clock.seconds()
    sharers = record.get("sharers", set())
    is_held = record.get("holder", id) != id or bool(sharers - {path})
    rests = max(record.get("rests", 0), now + key.rests if key.rests else 0)
    if not is_held and rests <= now:
        return [Write.delete(key.scope, ID, _same(record))]
    sets: Mapping[str, Any] = {
        **(_NOBODY if record.get("holder") == id else {}),
        **({"rests": rests} if key.rests else {}),
        **({} if is_held else {"expires": rests}),
    }
    removes = {"sharers": {path}} if path in sharers else {}
    return [Write.update(key.scope, ID, _same(record), sets=sets, adds={"revision": 1}, removes=removes)]


def _write(
    key: UniqueKey, scope: str, id: str, condition: Condition, *, after: Mapping[str, Any] | None = None
) -> Write:
    """Return the write that takes a key on a condition; `after` are the attributes of who held it before."""
    sets: dict[str, Any] = {"schema": SCHEMA, "expires": None, **(after or {})}
    if key.hold != "over":
        sets["account"] = _account(scope)
    if key.hold == "together":
        adds: Mapping[str, Any] = {"sharers": {_path(scope, id)}, "revision": 1}
    else:
        own = {"holder": id, "home": scope, "successor": key.successor or None, "body": dict(key.attributes)}
        sets, adds = {**sets, **own}, {"revision": 1}
    return Write.update(key.scope, ID, condition, sets=sets, adds=adds, failing=Taken(key))


def _same(record: Mapping[str, Any]) -> Condition:
    if "revision" not in record:
        return Condition("attribute_not_exists(#revision)")
    return Condition("#revision = :revision", {"revision": record["revision"]})


def _account(scope: str) -> str:
    return scope.partition("#")[0]


def _path(scope: str, id: str) -> str:
    return f"{scope.partition('#')[2]}/{id}"
