"""Switching items off and on. An item that is off cannot be used.

Accounts, users and bots have the field `active`, which clients see. Other items are switched off by a suspension, a
hidden attribute of their records, which no response shows. The unique keys of an item have a copy of the attribute,
because SSH gateways read only the unique keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from chalicelib.model.base import kinds, records
from chalicelib.model.base.records import Created
from chalicelib.storage.records.items import Item

Switch: TypeAlias = Literal["on", "off"]

SUSPENDED = "suspended"
# the hidden attribute of an SSH authority or TLS certificate that was imported. Its private key is missing, because
# exports do not contain private keys
WITHOUT_KEY = "without_key"
WALK = "walk"  # the hidden attribute with the progress of the offboarding of a user, bot or key
OFFBOARDED = "offboarded"  # the hidden attribute with the Unix second from which an offboarding can be completed


@dataclass(frozen=True, kw_only=True)
class Switchable(Created):
    """The stored form of an account, a user or a bot. The field `active` switches it on or off."""

    name: str = ""
    active: bool = True

    AUDITED = ("name", "active")


def is_on(item: Item) -> bool:
    """Return whether an item is switched on. Malformed accounts, users and bots are off."""
    if _has_field(item):
        return any(stored.active for _, stored in records.decode_each(Switchable, [item]))
    return not item.unseen.get(SUSPENDED)


def is_key_on(attributes: Mapping[str, Any]) -> bool:
    """Return whether the item with a unique key is not suspended. `attributes` are the attributes of this key."""
    return not attributes.get(SUSPENDED)


def turn(item: Item, to: Switch) -> Item:
    """Return an item switched on or off."""
    if _has_field(item):
        return replace(item, body={**item.body, "active": to == "on"})
    keys = tuple(replace(key, attributes={SUSPENDED: to == "off"}) for key in item.unique_keys)
    marked = add_marker(item, SUSPENDED) if to == "off" else remove_marker(item, SUSPENDED)
    return replace(marked, unique_keys=keys)


def add_marker(item: Item, name: str, value: int = True) -> Item:
    """Return the item with one more hidden attribute: `name` with `value`."""
    return replace(item, unseen={**item.unseen, name: value})


def remove_marker(item: Item, *names: str) -> Item:
    """Return the item without the hidden attributes `names`."""
    return replace(item, unseen={name: value for name, value in item.unseen.items() if name not in names})


def _has_field(item: Item) -> bool:
    kind = kinds.identify_item(item)
    return kind is not None and issubclass(kind.stored_type, Switchable)
