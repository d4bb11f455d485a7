"""Items: what is stored under a scope and an id, and the record that DynamoDB keeps of it.

The record keeps the attribute names of the first edition: `parts` are modules, `claims` unique keys, `points`
references, `pointed_by` referrers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chalicelib import clock, ids
from chalicelib.storage import dynamodb, references
from chalicelib.storage.dynamodb import Condition, Write
from chalicelib.storage.references import Reference
from chalicelib.storage.unique_keys import UniqueKey

SCHEMA = 2  # of every record that is written here; a record of the first edition has none until it is migrated
UNEXPIRED = "(attribute_not_exists(#expires) OR #expires > :now)"


@dataclass(frozen=True)
class Item:
    """What is stored under a scope and an id.

    `body` is what the API shows, `modules` what of it comes and goes by itself, by name, `sealed` what only the vault
    can read, `unique_keys` the values it holds for itself, `references` what it names, `referrers` the paths of what
    names it, `expires` the Unix second at which it is gone, `revision` how often it was written (0: by the first
    edition, which did not count).
    """

    scope: str
    id: str
    body: dict[str, Any]
    modules: dict[str, Any] = field(default_factory=dict)
    sealed: dict[str, bytes] = field(default_factory=dict, repr=False)
    unique_keys: tuple[UniqueKey, ...] = ()
    references: tuple[Reference, ...] = ()
    referrers: frozenset[str] = frozenset()
    expires: int | None = None
    revision: int = 1

    @property
    def account(self) -> str:
        return account(self.scope)

    @property
    def path(self) -> str:
        """The scope without the account."""
        return self.scope.partition("#")[2]

    @property
    def is_live(self) -> bool:
        return self.expires is None or self.expires > now()

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> "Item":
        """The item that a record keeps; one of which only modules were ever set has an empty body."""
        return Item(
            record["scope"],
            record["id"],
            record.get("body", {}),
            record.get("parts", {}),
            record.get("sealed", {}),
            tuple(UniqueKey(kind, value) for kind, value in record.get("claims", ())),
            references.from_record(record.get("points", {})),
            frozenset(record.get("pointed_by", ())),
            record.get("expires"),
            record.get("revision", 0),
        )

    def to_record(self) -> dict[str, Any]:
        """The item as DynamoDB keeps it: nothing that is empty but the body."""
        optional = {**_relations(self), "sealed": self.sealed, "expires": self.expires}
        present = {name: value for name, value in optional.items() if value not in (None, {}, [])}
        own = {"scope": self.scope, "id": self.id, "body": self.body, "revision": self.revision}
        return {**own, "schema": SCHEMA, **present}


def scope(account: str, path: str) -> str:
    """Where an account keeps what a path lists."""
    return f"{account}#{path}"


def account(scope: str) -> str:
    """The account that a scope lies in."""
    return scope.partition("#")[0]


def parent(scope: str) -> tuple[str, str] | None:
    """The scope and id of the item that a scope lies beneath, for example of the edge of a scope of routes."""
    holder, _, id = scope.rpartition("/")[0].rpartition("/")
    return (holder, id) if ids.is_id(id, id.partition("_")[0]) else None


def replacing(before: Item, after: Item) -> Write:
    """Write what differs between two states of an item, if nobody has changed it since the first."""
    old, new = _relations(before), _relations(after)
    differing = {name: value or None for name, value in new.items() if value != old[name]}
    body = {"body": after.body} if after.body != before.body else {}
    return changing(before.scope, before.id, {**body, **differing}, unchanged(before))


def changing(scope: str, id: str, attributes: Mapping[str, Any], condition: Condition) -> Write:
    """Set attributes of an item's record and raise its revision; None removes an attribute."""
    return dynamodb.updating(scope, id, condition, sets={**attributes, "schema": SCHEMA}, adds={"revision": 1})


def live() -> Condition:
    """Require that there is an item, and that it has not expired."""
    return Condition(f"attribute_exists(#body) AND {UNEXPIRED}", {"now": now()})


def unchanged(item: Item) -> Condition:
    """Require that the item is live and has the revision that it had."""
    alive = live()
    if item.revision == 0:
        return Condition(f"{alive.text} AND attribute_not_exists(#revision)", alive.values)
    return Condition(f"{alive.text} AND #revision = :revision", {**alive.values, "revision": item.revision})


def now() -> int:
    """The current Unix second."""
    return int(clock.now().timestamp())


def _relations(item: Item) -> dict[str, Any]:
    """What of a record is neither body nor secret, by the names of its attributes."""
    return {
        "parts": item.modules,
        "claims": [[key.kind, key.value] for key in item.unique_keys],
        "points": references.to_record(item.references),
    }
