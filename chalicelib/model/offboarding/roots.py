"""The root of an offboarding: a user, bot, API key or federated credential.

A root is closed before a walk searches the resources that it created: its credentials are rejected until somebody
enables the root. The record of the root contains the Unix second by which all earlier requests with its keys will have
been answered. Only a walk that begins after this second can complete the offboarding.
"""

import time
from dataclasses import replace

from chalicelib import clock
from chalicelib.model import changes
from chalicelib.model.accounts import accounts, api_keys, ownership, switching
from chalicelib.model.accounts.federated_credentials import FederatedCredential
from chalicelib.model.audit import reading
from chalicelib.model.base import kinds, records, switches
from chalicelib.model.base.switches import OFFBOARDED
from chalicelib.model.changes import Change
from chalicelib.storage.records import direct_writes, items, table
from chalicelib.storage.records.items import Item

# seconds after which all earlier requests have been answered: a request takes at most 15 s, and times are whole seconds
SETTLING = 16


def close(change: Change, account: str, id: str) -> Item | None:
    """Close a root in one transaction and return its record, or None if it does not exist.

    A root that is closed already stays unchanged. Raises LastAdmin, and the errors of `Change.commit`.
    """
    scope, started = items.scope(account, kinds.identify(id).path), time.monotonic()
    rewrite = switching.rewrite if is_owner(id) else changes.rewrite
    closed = rewrite(change, scope, id, _close)
    if closed and not is_settled(closed) and time.monotonic() - started > 1:
        postpone(closed, SETTLING)
    return closed


def is_owner(id: str) -> bool:
    """Return whether an id belongs to a user or bot."""
    return id.partition("_")[0] in accounts.OWNERS


def owner_of(root: Item) -> str:
    """Return the id of the user or bot for which a root's keys act, or "" if the root has no `owner_id`."""
    return root.id if is_owner(root.id) else str(root.body.get("owner_id", ""))


def find_settled_time(root: Item) -> int:
    """Return the Unix second from which a new walk can complete the offboarding."""
    return int(root.unseen.get(OFFBOARDED, 0))


def is_settled(root: Item) -> bool:
    """Return whether a walk that begins now can complete the offboarding. A walk is a search of the whole tree."""
    return find_settled_time(root) <= clock.seconds()


def postpone(root: Item, seconds: int) -> Item:
    """Postpone, by some seconds from now, the time from which a walk can complete the offboarding. Return the root.

    Raises aws.Unavailable.
    """
    second = clock.seconds() + seconds
    direct_writes.set_mark(root, OFFBOARDED, second)
    return switches.add_marker(root, OFFBOARDED, second)


def shut_out(root: Item) -> None:
    """Deactivate the keys and credentials of a closed user or bot. Raises aws.Unavailable."""
    account, ids = root.account, reading.list_keys_of(root.account, root.id)
    keys = table.find_each(items.scope(account, kinds.API_KEYS.path), ids)
    federated = [item for item in list_federated(account, root.id) if item.body.get("owner_id") == root.id]
    owned = [*keys.values(), *ownership.list_credentials(account, root.id), *federated]
    switching.update_keys(account, root.id, ownership.unique_keys_of(owned))


def list_federated(account: str, owner: str) -> list[Item]:
    """Return the federated credentials that can act for a user or bot (the owner).

    Such a credential names the owner, or reads the owner from a claim of the identity token. One query. Raises
    aws.Unavailable.
    """
    credentials = table.list_newest(items.scope(account, kinds.FEDERATED_CREDENTIALS.path))
    decoded = records.decode_each(FederatedCredential, credentials)
    return [item for item, stored in decoded if stored.owner_claim or stored.owner_id == owner]


def disable(item: Item) -> Item:
    """Return the item of a federated credential, changed to disabled. Does not write it. Raises MalformedRecord."""
    before = records.decode(FederatedCredential, item)
    after = replace(before, enabled=False)
    body, keys = records.body_of_change(item, before, after), records.keys_of_change(item, before, after)
    return replace(item, body=body, unique_keys=keys)


def _close(item: Item) -> Item:
    """Return the item of a root with the changes that close the root. Does not write the item.

    The item also gets the Unix second from which a walk can complete the offboarding.
    """
    if is_owner(item.id):
        after = switching.mark_switch(item, switches.turn(item, "off"))
    elif kinds.FEDERATED_CREDENTIALS.has(item.id):
        after = disable(item)
    else:
        after = item if OFFBOARDED in item.unseen else replace(item, unique_keys=(api_keys.build_locked_key(item.id),))
    if after == item and OFFBOARDED in item.unseen:
        return item
    return switches.add_marker(after, OFFBOARDED, clock.seconds() + SETTLING)
