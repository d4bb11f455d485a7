"""SSH credentials and user certificates that the operator has suspended: they let nobody in at a gateway."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from chalicelib.model import changes, kinds
from chalicelib.model.accounts import Switch
from chalicelib.model.changes import Change
from chalicelib.model.kinds import Kind
from chalicelib.storage import items
from chalicelib.storage.items import Item

KINDS = (kinds.SSH_CREDENTIALS, kinds.SSH_USER_CERTIFICATES)
_MARKER = changes.SUSPENDED  # of the record, and of the unique key that gateways read in its place


def switch(change: Change, kind: Kind, account: str, id: str, to: Switch) -> bool:
    """Suspend one of KINDS ("off"), or let it in again ("on"); False where the account has none of that id.

    It stays suspended when its owner is switched on again. Its tunnels end as the log of changes tells. Raises
    aws.Unavailable.
    """

    def switched(item: Item) -> Item:
        suspended = to == "off"
        others = {name: value for name, value in item.unseen.items() if name != _MARKER}
        keys = (replace(key, attributes={_MARKER: suspended}) for key in item.unique_keys)
        return replace(item, unseen={**others, _MARKER: True} if suspended else others, unique_keys=tuple(keys))

    return changes.rewrite(change, items.scope(account, kind.path), id, switched) is not None


def is_suspended(item: Item) -> bool:
    """Tell whether the record of one of KINDS is suspended."""
    return bool(item.unseen.get(_MARKER))


def is_key_suspended(attributes: Mapping[str, Any]) -> bool:
    """Tell whether a record of KINDS is suspended, by the attributes of its unique key."""
    return bool(attributes.get(_MARKER))
