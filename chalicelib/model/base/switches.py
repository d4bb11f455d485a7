"""Switching items off, so that they cannot be used until they are switched on again.

Accounts, users and bots store the field `active`, which clients see. Other items are suspended: their records have a
hidden attribute, and their unique keys repeat it, because gateways read only these.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from chalicelib.model.base import kinds, records
from chalicelib.model.base.records import Created
from chalicelib.storage.records.items import Item

Switch: TypeAlias = Literal["on", "off"]

SUSPENDED = "suspended"
WITHOUT_KEY = "without_key"  # imported without its private key, which no export contains
WALK = "walk"  # the progress of an offboarding
OFFBOARDED = "offboarded"  # the Unix second from which the last walk of an offboarding may begin


@dataclass(frozen=True, kw_only=True)
class Switchable(Created):
    """The stored form of an account, a user or a bot, whose switch is the field `active`."""

    name: str = ""
    active: bool = True

    AUDITED = ("name", "active")


def is_on(item: Item) -> bool:
    """Return whether an item is switched on. A malformed account, user or bot is not."""
    if _has_field(item):
        return any(stored.active for _, stored in records.decoded(Switchable, [item]))
    return not item.unseen.get(SUSPENDED)


def is_key_on(attributes: Mapping[str, Any]) -> bool:
    """Return whether the item of a unique key is not suspended."""
    return not attributes.get(SUSPENDED)


def turn(item: Item, to: Switch) -> Item:
    """Return an item that is switched on or off."""
    if _has_field(item):
        return replace(item, body={**item.body, "active": to == "on"})
    keys = tuple(replace(key, attributes={SUSPENDED: to == "off"}) for key in item.unique_keys)
    marked = add_marker(item, SUSPENDED) if to == "off" else remove_marker(item, SUSPENDED)
    return replace(marked, unique_keys=keys)


def add_marker(item: Item, name: str, value: int = True) -> Item:
    """Return an item with a record that has a hidden attribute."""
    return replace(item, unseen={**item.unseen, name: value})


def remove_marker(item: Item, *names: str) -> Item:
    """Return an item with a record that lacks some hidden attributes."""
    return replace(item, unseen={name: value for name, value in item.unseen.items() if name not in names})


def _has_field(item: Item) -> bool:
    kind = kinds.of_item(item)
    return kind is not None and issubclass(kind.stored_type, Switchable)
