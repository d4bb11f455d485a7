"""Items: what is stored under a scope and an id, and the record that DynamoDB keeps of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chalicelib import clock
from chalicelib.storage import pointers
from chalicelib.storage.claims import Claim
from chalicelib.storage.dynamodb import Condition
from chalicelib.storage.pointers import Pointer

UNEXPIRED = "(attribute_not_exists(#expires) OR #expires > :now)"


@dataclass(frozen=True)
class Item:
    """What is stored under a scope and an id.

    `body` is what the API shows, `parts` what of it comes and goes by itself, by name, `sealed` what only the vault
    can read, `claims` what the item holds for itself, `points` what it points at, `pointed_by` what points at it,
    `expires` the Unix second at which it is gone.
    """

    scope: str
    id: str
    body: dict[str, Any]
    parts: dict[str, Any] = field(default_factory=dict)
    sealed: dict[str, bytes] = field(default_factory=dict, repr=False)
    claims: tuple[Claim, ...] = ()
    points: tuple[Pointer, ...] = ()
    pointed_by: frozenset[str] = frozenset()
    expires: int | None = None

    @property
    def path(self) -> str:
        """The scope without the account."""
        return self.scope.partition("#")[2]

    @property
    def is_live(self) -> bool:
        return self.expires is None or self.expires > now()

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> "Item":
        """The item that a record keeps; one of which only parts were ever set has an empty body."""
        bonds = {
            "claims": tuple(Claim(kind, value) for kind, value in record.get("claims", ())),
            "points": pointers.from_record(record.get("points", {})),
        }
        return Item(**{"body": {}, **record, **bonds})

    def to_record(self) -> dict[str, Any]:
        """The item as DynamoDB keeps it: nothing that is empty but the body."""
        bonds = {"claims": claims_record(self.claims), "points": pointers.to_record(self.points)}
        optional = {"parts": self.parts, "sealed": self.sealed, "expires": self.expires, **bonds}
        present = {name: value for name, value in optional.items() if value not in (None, {}, [])}
        return {"scope": self.scope, "id": self.id, "body": self.body, **present}


def claims_record(claims: tuple[Claim, ...]) -> list[list[str]]:
    """Claims as they stand in the record of the item that holds them."""
    return [[claim.kind, claim.value] for claim in claims]


def live() -> Condition:
    """That there is an item, and that it has not expired."""
    return Condition(f"attribute_exists(#body) AND {UNEXPIRED}", {"now": now()})


def unchanged(item: Item) -> Condition:
    """That the item is live, has the claims and pointers that it had, and parts if it had any."""
    record = item.to_record()
    before = {name: record[name] for name in ("claims", "points") if name in record}
    same = [f"#{name} = :{name}_before" for name in before]
    none = [f"attribute_not_exists(#{name})" for name in ("claims", "points") if name not in before]
    parts = "size(#parts) > :zero" if item.parts else "(attribute_not_exists(#parts) OR size(#parts) = :zero)"
    values = {"zero": 0, **{f"{name}_before": value for name, value in before.items()}}
    return Condition(" AND ".join([live().text, *same, *none, parts]), {**live().values, **values})


def now() -> int:
    """The current Unix second."""
    return int(clock.now().timestamp())
