"""Items, and their records in DynamoDB. The primary key of the table is `scope` (partition key) and `id` (sort key).

The attributes of records have the names of 1.0.0: `parts` are modules, `claims` unique keys, `points` references, and
`pointed_by` referrers.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from chalicelib import clock, ids
from chalicelib.storage.client.dynamodb import OLDEST_FORMAT, Condition, Write
from chalicelib.storage.records import decoding, item_keys, references
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.item_keys import ItemKey
from chalicelib.storage.records.references import Reference
from chalicelib.storage.records.unique_keys import UniqueKey

_UNEXPIRED = "attribute_not_exists(#lease) AND (attribute_not_exists(#expires) OR #expires > :now)"
_LIVE = f"(#lease > :now OR ({_UNEXPIRED}))"


@dataclass(frozen=True, kw_only=True)
class Record:
    """The attributes of an item's record, except `scope` and `id`."""

    body: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)
    # `Secrets` checks this value, and not the decoder. So a malformed secret does not make the whole item malformed.
    sealed: Any = None
    unseen: dict[str, Any] = field(default_factory=dict)
    claims: list[list[str]] = field(default_factory=list)
    points: dict[str, list[list[str]]] = field(default_factory=dict)
    pointed_by: set[str] = field(default_factory=set)
    expires: int | None = None
    lease: int | None = None
    revision: int = 0
    indexed: str | None = None
    acted: str | None = None
    changed: int | None = None


class Secrets(dict[str, bytes]):
    """The encrypted secrets of a record. Using a missing or malformed secret raises MalformedRecord."""

    @staticmethod
    def of(sealed: Any) -> "Secrets":
        """Return the encrypted secrets in an attribute. Malformed values are left out."""
        secrets = sealed if isinstance(sealed, Mapping) else {}
        return Secrets({name: value for name, value in secrets.items() if isinstance(value, bytes)})

    def __missing__(self, name: str) -> bytes:
        raise MalformedRecord(Record.__name__, f"sealed.{name}", "must be bytes")


_NO_SECRETS = Secrets()


@dataclass(frozen=True)
class Item:
    """A stored resource.

    - `body`: the fields that the API shows; `modules`: the records of its modules by name
    - `sealed`: its secrets by name, encrypted by the vault
    - `unseen`: stored values that are never shown
    - `unique_keys`: values that no other item can have
    - `references`: the items that it names; `referrers`: the paths of the items that name it
    - `expires`: the Unix second at which it expires
    - `lease`: used instead of `expires` if the end must be recorded. The item ends at that Unix second, but its record
      stays for another day, so that the event of the end can be written
    - `revision`: the number of its writes, 0 before the first one
    - `indexed`, `acted`: its keys in the table's indexes `by-resource` and `by-actor`, if any
    - `changed`: the Unix second of its last change, None before the first one
    - `read_at`: the primary key of the record from which the item was read, None for a new item
    - `malformed`: the error in its record, or None. A malformed item has an empty body and no modules. Malformed unique
      keys, references and referrers are left out
    """

    scope: str
    id: str
    body: dict[str, Any]
    modules: dict[str, Any] = field(default_factory=dict)
    sealed: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    unseen: dict[str, Any] = field(default_factory=dict)
    unique_keys: tuple[UniqueKey, ...] = ()
    references: tuple[Reference, ...] = ()
    referrers: frozenset[str] = frozenset()
    expires: int | None = None
    revision: int = 1
    indexed: str | None = None
    lease: int | None = None
    acted: str | None = None
    changed: int | None = field(default=None, compare=False)
    read_at: ItemKey | None = field(default=None, compare=False)
    malformed: MalformedRecord | None = field(default=None, compare=False, repr=False)

    @property
    def account(self) -> str:
        return self.scope.partition("#")[0]

    @property
    def path(self) -> str:
        """Return the path of the API to which the item belongs: `scope` without the account's id."""
        return self.scope.partition("#")[2]

    @property
    def key(self) -> ItemKey:
        """Return the primary key of the record that was read. For a new item, return the primary key for its record."""
        return self.read_at or item_keys.build_new(self.scope, self.id)

    @property
    def is_live(self) -> bool:
        end = self.expires if self.lease is None else self.lease
        return end is None or end > clock.seconds()

    @property
    def has_own_lease(self) -> bool:
        return self.lease is not None or self.expires is not None

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> "Item":
        """Return the item of a record. The body is empty if the record has only modules."""
        read_at = record["scope"], record["id"]
        scope, id = item_keys.find_item(*read_at)
        try:
            typed_record = decoding.decode(Record, record)
            values = {
                "scope": scope,
                "id": id,
                "body": typed_record.body,
                "modules": typed_record.parts,
                "sealed": Secrets.of(typed_record.sealed) if "sealed" in record else _NO_SECRETS,
                "unseen": typed_record.unseen,
                "unique_keys": _keys(typed_record) if typed_record.claims else (),
                "references": _references(typed_record) if typed_record.points else (),
                "referrers": frozenset(typed_record.pointed_by),
                "expires": None if "lease" in record else typed_record.expires,
                "revision": typed_record.revision,
                "indexed": typed_record.indexed,
                "lease": typed_record.lease,
                "acted": typed_record.acted,
                "changed": typed_record.changed,
                "read_at": read_at,
            }
            return decoding.build(Item, values)
        except MalformedRecord as malformed:
            return _mark_malformed(Item(scope, id, {}, revision=0, read_at=read_at), _salvage(record), malformed)

    def drop_body(self, malformed: MalformedRecord) -> "Item":
        """Return the item without body and modules, marked as malformed."""
        return replace(self, body={}, modules={}, malformed=malformed)

    def to_record(self) -> dict[str, Any]:
        """Return the record of the item, without empty attributes except the body."""
        optional = {
            "parts": self.modules,
            **_relations(self),
            "sealed": self.sealed,
            "unseen": self.unseen,
            "indexed": self.indexed,
            "acted": self.acted,
            "changed": self.changed,
            **({"expires": self.expires} if self.lease is None else build_lease(self.lease)),
        }
        present = {name: value for name, value in optional.items() if value not in (None, {}, [])}
        scope, id = self.key
        return {"scope": scope, "id": id, "body": self.body, "revision": self.revision, **present}


def scope(account: str, path: str) -> str:
    """Return the partition key `scope` of an account's items at a path, for example `acct_…#/edges/tcp`."""
    return f"{account}#{path}"


def find_parent(scope: str) -> tuple[str, str] | None:
    """Return the primary key of the parent of items, such as the edge of routes. Return None without a parent."""
    parent_scope, _, id = scope.rpartition("/")[0].rpartition("/")
    return (parent_scope, id) if ids.is_id(id, id.partition("_")[0]) else None


def decode_with_body(record: Mapping[str, Any] | None) -> Item | None:
    """Return the item of a record. Return None if it has expired or has no body. Raises MalformedRecord."""
    item = decode_live(record)
    if item and item.malformed:
        raise item.malformed
    return item if item and item.body else None


def decode_live(record: Mapping[str, Any] | None) -> Item | None:
    """Return the item of a record, even if it is malformed. Return None if it has expired."""
    item = Item.from_record(record) if record else None
    return item if item and item.is_live else None


def rewrite(before: Item, after: Item) -> Write:
    """Return the write that replaces an item by a new state. It fails if the item has changed since it was read.

    If the new state has no body and no modules, the write deletes the item.
    """
    if not after.body and not after.modules:
        return Write.delete(*before.key, require_unchanged(before))
    old, new = _relations(before), _relations(after)
    differing = {name: value or None for name, value in new.items() if value != old[name]}
    body = {"body": after.body} if after.body != before.body else {}
    unseen = {"unseen": after.unseen or None} if after.unseen != before.unseen else {}
    # An item without a body may have no record yet. Then this write creates the record, which needs a `schema`.
    schema = {} if before.body else {"schema": OLDEST_FORMAT}
    sets = {**body, **unseen, **differing, **_modules(before, after), **schema, "changed": clock.seconds()}
    step = after.revision - before.revision or 1
    return Write.update(*before.key, require_unchanged(before), sets=sets, adds={"revision": step})


def choose_revision(item: Item) -> int:
    """Return the next revision of an item. It is above all earlier revisions of items with the same id.

    A new item starts with the Unix second followed by 20 random bits. This number is below 2^53.
    """
    return item.revision + 1 if item.body or item.modules else clock.seconds() << 20 | secrets.randbits(20)


def require_live() -> Condition:
    """Return the condition that an item exists and has not expired."""
    return Condition(f"attribute_exists(#body) AND {_LIVE}", {"now": clock.seconds()})


def require_lapsed() -> Condition:
    """Return the condition that an item has expired or its lease is over. The condition is false without a record."""
    ended = "(#lease <= :now OR (attribute_not_exists(#lease) AND #expires <= :now))"
    return Condition(ended, {"now": clock.seconds()})


def build_lease(until: int) -> dict[str, int]:
    """Return the attributes for a lease until a Unix second. A day later, DynamoDB removes the record."""
    return {"lease": until, "expires": until + 86_400}


def require_unchanged(item: Item) -> Condition:
    """Return the condition that an item has not changed since it was read.

    A live item must still have its revision. An absent item must still be absent. A malformed item must still exist.
    """
    if item.malformed:
        return Condition("attribute_exists(#id)")
    there = require_live() if item.body else Condition("attribute_not_exists(#body)")
    if item.revision == 0:
        return Condition(f"{there.text} AND attribute_not_exists(#revision)", there.values)
    return Condition(f"{there.text} AND #revision = :revision", {**there.values, "revision": item.revision})


def _mark_malformed(empty: Item, record: Record, malformed: MalformedRecord) -> Item:
    """Return a malformed item. It has the unique keys, references and referrers of its record that can be read."""
    keys, targets, referrers = _keys(record), _references(record), frozenset(record.pointed_by)
    return replace(empty, unique_keys=keys, references=targets, referrers=referrers, malformed=malformed)


def _salvage(record: Mapping[str, Any]) -> Record:
    """Return the unique keys, references and referrers of a malformed record that can be read."""
    attributes: dict[str, Any] = {}
    for name in ("claims", "points", "pointed_by"):
        try:
            partial_record = decoding.decode(Record, {name: record[name]} if name in record else {})
            _keys(partial_record), _references(partial_record)
        except MalformedRecord:
            continue
        attributes[name] = getattr(partial_record, name)
    return Record(**attributes)


def _keys(record: Record) -> tuple[UniqueKey, ...]:
    try:
        return tuple([UniqueKey(kind, value) for kind, value in record.claims])
    except ValueError:
        raise MalformedRecord(Record.__name__, "claims", "must be pairs [kind, value] of unique keys") from None


def _references(record: Record) -> tuple[Reference, ...]:
    try:
        return references.from_record(record.points) if record.points else ()
    except ValueError:
        raise MalformedRecord(Record.__name__, "points", "must be a map of modules to lists of [scope, id]") from None


def _relations(item: Item) -> dict[str, Any]:
    """Return the record's attributes that store unique keys and references."""
    return {
        "claims": [[key.kind, key.value] for key in item.unique_keys],
        "points": references.to_record(item.references) if item.references else {},
    }


def _modules(before: Item, after: Item) -> dict[str, Any]:
    """Return the attributes to set for changed modules. A map `parts` that was or becomes empty is set as a whole."""
    if before.modules == after.modules:
        return {}
    if not before.modules or not after.modules:
        return {"parts": after.modules or None}
    names = sorted(before.modules.keys() | after.modules.keys())
    differing = [name for name in names if before.modules.get(name) != after.modules.get(name)]
    return {f"parts.{name}": after.modules.get(name) for name in differing}
