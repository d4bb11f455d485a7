"""Claims: values that one item holds for itself in the whole service, each a record beside the item's own.

A claim has a scope of its own, so that claims spread over all partitions. Every write of one is part of a transaction.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chalicelib.storage import dynamodb
from chalicelib.storage.dynamodb import Condition, Part

_ID = "claim"


@dataclass(frozen=True)
class Claim:
    """A value of the field `kind` that one item holds for itself, and facts to read together with it."""

    kind: str
    value: str
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)
    place: str = ""  # where it stands in what the caller sent, if that is not the field itself

    @property
    def scope(self) -> str:
        return f"{self.kind}#{self.value}"


class Taken(Exception):
    """Another item holds the claim."""

    def __init__(self, claim: Claim) -> None:
        super().__init__(claim.kind)
        self.claim = claim


def read(kind: str, value: str) -> dict[str, Any] | None:
    """The facts of the claim to a value, or None when nothing claims it. Raises aws.Unavailable."""
    record = dynamodb.get(Claim(kind, value).scope, _ID)
    return record["body"] if record else None


def taking(claim: Claim, holder: str) -> Part:
    """Making the claim, unless another holds it."""
    record = {"scope": claim.scope, "id": _ID, "body": dict(claim.facts), "holder": holder}
    return dynamodb.putting(record, Condition("attribute_not_exists(#id) OR #holder = :holder", {"holder": holder}))


def changing(claim: Claim, holder: str, facts: Mapping[str, Any]) -> Part:
    """Setting some of the facts."""
    return dynamodb.setting(claim.scope, _ID, {f"body.{name}": fact for name, fact in facts.items()}, _held_by(holder))


def releasing(claim: Claim, holder: str) -> Part:
    """Giving the claim up."""
    return dynamodb.deleting(claim.scope, _ID, _held_by(holder))


def _held_by(holder: str) -> Condition:
    return Condition("#holder = :holder", {"holder": holder})
