"""Items: what is stored under a scope and an id, and the record that DynamoDB keeps of it.

The record keeps the attribute names of the first edition: `parts` are modules, `claims` unique keys, `points`
references, `pointed_by` referrers.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from chalicelib import clock, ids
from chalicelib.storage import decoding, places, references
from chalicelib.storage.decoding import MalformedRecord
from chalicelib.storage.dynamodb import SCHEMA, Condition, Write
from chalicelib.storage.places import Place
from chalicelib.storage.references import Reference
from chalicelib.storage.unique_keys import UniqueKey

_UNEXPIRED = "attribute_not_exists(#lease) AND (attribute_not_exists(#expires) OR #expires > :now)"
_LIVE = f"(#lease > :now OR ({_UNEXPIRED}))"
_DAY = 24 * 60 * 60  # seconds


@dataclass(frozen=True, kw_only=True)
class Record:
    """The attributes of an item's record, beside its key."""

    body: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)
    sealed: dict[str, bytes] = field(default_factory=dict)
    unseen: dict[str, Any] = field(default_factory=dict)
    claims: list[list[str]] = field(default_factory=list)
    points: dict[str, list[list[str]]] = field(default_factory=dict)
    pointed_by: set[str] = field(default_factory=set)
    expires: int | None = None
    lease: int | None = None
    revision: int = 0
    indexed: str | None = None
    acted: str | None = None


@dataclass(frozen=True)
class Item:
    """A resource as it is stored, under a scope and an id.

    `body` is what the API shows, `modules` the records of its modules by name, `sealed` its secrets, encrypted by the
    vault, `unseen` what is stored and never shown, `unique_keys` the values that no other item may have, `references`
    the items that it names, `referrers` the paths of the items that name it, `expires` the Unix second at which it is
    gone, `revision` how often it was written (0: by the first edition, which did not count), `indexed` and `acted`
    its keys in the table's indexes by resource and by actor, if it is in there.

    `lease` is, in the place of `expires`, the Unix second at which it counts as gone: its record stays for another day,
    so that somebody can write the event of its end. `read_at` is where its record was read, None for a new item.

    `malformed` says what is wrong with its record, None if nothing is. A malformed item has an empty body, no modules,
    and those unique keys, references and referrers that can still be read.
    """

    scope: str
    id: str
    body: dict[str, Any]
    modules: dict[str, Any] = field(default_factory=dict)
    sealed: dict[str, bytes] = field(default_factory=dict, repr=False)
    unseen: dict[str, Any] = field(default_factory=dict)
    unique_keys: tuple[UniqueKey, ...] = ()
    references: tuple[Reference, ...] = ()
    referrers: frozenset[str] = frozenset()
    expires: int | None = None
    revision: int = 1
    indexed: str | None = None
    lease: int | None = None
    acted: str | None = None
    read_at: Place | None = field(default=None, compare=False)
    malformed: MalformedRecord | None = field(default=None, compare=False, repr=False)

    @property
    def account(self) -> str:
        return self.scope.partition("#")[0]

    @property
    def path(self) -> str:
        """Return the scope without the account."""
        return self.scope.partition("#")[2]

    @property
    def place(self) -> Place:
        """Return where its record lies, or is to lie."""
        return self.read_at or places.written(self.scope, self.id)

    @property
    def is_live(self) -> bool:
        end = self.expires if self.lease is None else self.lease
        return end is None or end > clock.seconds()

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> "Item":
        """Return the item of a record. An edge of which only modules were ever set has an empty body."""
        read_at = record["scope"], record["id"]
        scope, id = places.of_item(*read_at)
        try:
            found = decoding.decode(Record, record)
            values = {
                "scope": scope,
                "id": id,
                "body": found.body,
                "modules": found.parts,
                "sealed": found.sealed,
                "unseen": found.unseen,
                "unique_keys": _keys(found) if found.claims else (),
                "references": _references(found) if found.points else (),
                "referrers": frozenset(found.pointed_by),
                "expires": None if "lease" in record else found.expires,
                "revision": found.revision,
                "indexed": found.indexed,
                "lease": found.lease,
                "acted": found.acted,
                "read_at": read_at,
                "malformed": None,
            }
            return decoding.build(Item, values)
        except MalformedRecord as malformed:
            return _malformed(Item(scope, id, {}, revision=0, read_at=read_at), _readable(record), malformed)

    def without_body(self, malformed: MalformedRecord) -> "Item":
        """Return the item as a malformed one, whose body cannot be decoded."""
        return replace(self, body={}, modules={}, malformed=malformed)

    def to_record(self) -> dict[str, Any]:
        """Return the item as DynamoDB keeps it: without what is empty, except the body."""
        optional = {
            "parts": self.modules,
            **_relations(self),
            "sealed": self.sealed,
            "unseen": self.unseen,
            "indexed": self.indexed,
            "acted": self.acted,
            **({"expires": self.expires} if self.lease is None else leased(self.lease)),
        }
        present = {name: value for name, value in optional.items() if value not in (None, {}, [])}
        scope, id = self.place
        return {"scope": scope, "id": id, "body": self.body, "revision": self.revision, **present}


def scope(account: str, path: str) -> str:
    """Return the scope in which an account keeps what a path lists: `acct_…#/edges/tcp`."""
    return f"{account}#{path}"


def above(scope: str) -> tuple[str, str] | None:
    """Return the scope and id of the item that a scope lies beneath, None beneath none."""
    holder, _, id = scope.rpartition("/")[0].rpartition("/")
    return (holder, id) if ids.is_id(id, id.partition("_")[0]) else None


def of_record(record: Mapping[str, Any] | None) -> Item | None:
    """Return the item of a record, or None if it has expired or only modules were ever set. Raises MalformedRecord."""
    item = live_item(record)
    if item and item.malformed:
        raise item.malformed
    return item if item and item.body else None


def live_item(record: Mapping[str, Any] | None) -> Item | None:
    """Return the item of a record, also a malformed one, or None if it has expired."""
    item = Item.from_record(record) if record else None
    return item if item and item.is_live else None


def rewrite(before: Item, after: Item) -> Write:
    """Return the write of what differs between two states of an item; it fails if another changed it meanwhile.

    An item without body and modules is removed.
    """
    if not after.body and not after.modules:
        return Write.delete(*before.place, unchanged(before))
    old, new = _relations(before), _relations(after)
    differing = {name: value or None for name, value in new.items() if value != old[name]}
    body = {"body": after.body} if after.body != before.body else {}
    unseen = {"unseen": after.unseen or None} if after.unseen != before.unseen else {}
    schema = {} if before.body else {"schema": SCHEMA}  # an item of the first edition keeps none until it is migrated
    sets = {**body, **unseen, **differing, **_modules(before, after), **schema}
    step = after.revision - before.revision or 1
    return Write.update(*before.place, unchanged(before), sets=sets, adds={"revision": step})


def following(item: Item) -> int:
    """Return the next revision of an item. One that does not exist begins with a number that it never had before.

    That is the Unix second with 20 random bits: below 2^53, and beyond what a record written a million times a second
    would have reached.
    """
    is_there = item.body or item.modules
    return item.revision + 1 if is_there else clock.seconds() << 20 | secrets.randbits(20)


def live() -> Condition:
    """Return the condition that there is an item, and that it has not expired."""
    return Condition(f"attribute_exists(#body) AND {_LIVE}", {"now": clock.seconds()})


def lapsed() -> Condition:
    """Return the condition that an item is there and has expired, or its lease has ended."""
    ended = "(#lease <= :now OR (attribute_not_exists(#lease) AND #expires <= :now))"
    return Condition(ended, {"now": clock.seconds()})


def leased(until: int) -> dict[str, int]:
    """Return the attributes of a lease: the table removes the record a day later, if nobody has ended it before."""
    return {"lease": until, "expires": until + _DAY}


def unchanged(item: Item) -> Condition:
    """Return the condition that an item has the revision it was read with, and is still live, or still not made.

    Of a malformed item no more is required than that it exists.
    """
    if item.malformed:
        return Condition("attribute_exists(#id)")
    there = live() if item.body else Condition("attribute_not_exists(#body)")
    if item.revision == 0:
        return Condition(f"{there.text} AND attribute_not_exists(#revision)", there.values)
    return Condition(f"{there.text} AND #revision = :revision", {**there.values, "revision": item.revision})


def _malformed(empty: Item, found: Record, malformed: MalformedRecord) -> Item:
    """Return a malformed item with the relations that can be read."""
    keys, targets = _keys(found), _references(found)
    referrers = frozenset(found.pointed_by)
    return replace(empty, unique_keys=keys, references=targets, referrers=referrers, malformed=malformed)


def _readable(record: Mapping[str, Any]) -> Record:
    """Return the relations of a malformed record that can be read."""
    found: dict[str, Any] = {}
    for name in ("claims", "points", "pointed_by"):
        try:
            one = decoding.decode(Record, {name: record[name]} if name in record else {})
            _keys(one), _references(one)
        except MalformedRecord:
            continue
        found[name] = getattr(one, name)
    return Record(**found)


def _keys(record: Record) -> tuple[UniqueKey, ...]:
    try:
        return tuple([UniqueKey(kind, value) for kind, value in record.claims])
    except ValueError:
        raise MalformedRecord(Record.__name__, "claims", "must be pairs") from None


def _references(record: Record) -> tuple[Reference, ...]:
    try:
        return references.from_record(record.points) if record.points else ()
    except ValueError:
        raise MalformedRecord(Record.__name__, "points", "must be pairs") from None


def _relations(item: Item) -> dict[str, Any]:
    """Return the unique keys and references of a record, by the names of its attributes."""
    return {
        "claims": [[key.kind, key.value] for key in item.unique_keys],
        "points": references.to_record(item.references) if item.references else {},
    }


def _modules(before: Item, after: Item) -> dict[str, Any]:
    """Return the modules that differ, each by its path in the record; all of them where there were none."""
    if before.modules == after.modules:
        return {}
    if not before.modules or not after.modules:
        return {"parts": after.modules or None}
    names = sorted(before.modules.keys() | after.modules.keys())
    differing = [name for name in names if before.modules.get(name) != after.modules.get(name)]
    return {f"parts.{name}": after.modules.get(name) for name in differing}
