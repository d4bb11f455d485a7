"""Suspension of SSH credentials and user certificates by the operator. A gateway rejects suspended ones."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from chalicelib.model import changes
from chalicelib.model.accounts.accounts import Switch
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import Kind
from chalicelib.model.changes import Change
from chalicelib.storage.records import items
from chalicelib.storage.records.items import Item

KINDS = (kinds.SSH_CREDENTIALS, kinds.SSH_USER_CERTIFICATES)
_MARKER = changes.SUSPENDED  # in the record, and in its unique key, which gateways read instead


def switch(change: Change, kind: Kind, account: str, id: str, to: Switch) -> bool:
    """Suspend a credential or certificate ("off") or resume it ("on"). Return False if it does not exist.

    It stays suspended while its owner is switched off and on. Its tunnels end when gateways read the change log. Raises
    aws.Unavailable.
    """

    def switched(item: Item) -> Item:
        suspended = to == "off"
        others = {name: value for name, value in item.unseen.items() if name != _MARKER}
        keys = (replace(key, attributes={_MARKER: suspended}) for key in item.unique_keys)
        return replace(item, unseen={**others, _MARKER: True} if suspended else others, unique_keys=tuple(keys))

    return changes.rewrite(change, items.scope(account, kind.path), id, switched) is not None


def is_suspended(item: Item) -> bool:
    """Return whether a credential or certificate is suspended."""
    return bool(item.unseen.get(_MARKER))


def is_key_suspended(attributes: Mapping[str, Any]) -> bool:
    """Return whether a unique key belongs to a suspended credential or certificate."""
    return bool(attributes.get(_MARKER))
