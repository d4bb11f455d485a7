"""The tree of a federated credential: the API keys that its exchanges issue, and all keys that descend from them.

A key descends from the key that created it. A key from an exchange descends from the key that created the federated
credential. So a key can descend from several federated credentials. These credentials are its chain, the nearest
credential first. The record and the token record of the key contain the ids of the chain.

No key of a tree is valid for longer than MAX_LIFETIME, so only keys that were created within this time can be valid.
The transaction that creates a key checks that the credentials of its chain are enabled. So after a credential is
disabled, a read of the recent keys finds all keys of its tree.
"""

from contextlib import suppress
from dataclasses import replace
from typing import Any

from chalicelib import clock, ids
from chalicelib.model.accounts import api_keys, federated_credentials, switching
from chalicelib.model.accounts.api_keys import ApiKey
from chalicelib.model.accounts.federated_credentials import MAX_LIFETIME
from chalicelib.model.base import kinds, records, switches
from chalicelib.storage.records import direct_writes, items, table, writes
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.writes import Overtaken

# the attribute with the chain's ids, in the records of API keys and federated credentials, and in token records
ROOT = "federated"

_MARKER = "may_let_in"  # hidden attribute of a disabled credential, while keys of its tree may still be active
_MARGIN = 300  # seconds by which the clocks of two machines may differ


def list_live_keys(account: str, credential: str) -> list[Item]:
    """Return the valid API keys that descend from a federated credential, oldest first. Raises aws.Unavailable."""
    prefix, now = kinds.API_KEYS.prefix, clock.seconds()
    since = ids.first_at(prefix, now - MAX_LIFETIME - _MARGIN)
    candidates = table.read_between(items.scope(account, kinds.API_KEYS.path), since, f"{prefix}_~")
    descendants = (item for item in candidates if credential in _chain(item))
    return [item for item, key in records.decode_each(ApiKey, descendants) if key.end is None or key.end > now]


def update_keys(account: str, credential: str) -> Item:
    """Disable or enable the API keys that descend from a federated credential.

    A key is enabled if no credential of its chain is disabled. Returns the credential's record. Restarts if one of the
    credentials changes meanwhile. Raises aws.Unavailable.
    """
    scope = items.scope(account, kinds.FEDERATED_CREDENTIALS.path)

    def attempt() -> Item:
        root = table.find(scope, credential)
        if root is None:
            raise Overtaken
        chains = {key.id: _chain(key) for key in list_live_keys(account, credential)}
        other_credentials = table.find_each(scope, set().union(*chains.values()) - {credential})
        disabled = {item.id for item in (root, *other_credentials.values()) if not is_enabled(item)}
        sets = [(api_keys.key_of(id), {"disabled": bool(disabled & chain) or None}) for id, chain in chains.items()]
        switching.set_all(sets, unchanged=[root, *other_credentials.values()])
        updated = switching.remove_marker(root, _MARKER)
        if updated is None:
            raise Overtaken
        return updated

    return writes.retry(attempt)


def _chain(key: Item) -> set[str]:
    """Return the ids of the credentials in the chain of a key."""
    return set(str(key.unseen.get(ROOT, "")).split())


def close(credential: Item) -> None:
    """Reject exchanges with a federated credential from now on. Only its unique key changes, not its record.

    Raises aws.Unavailable.
    """
    direct_writes.set_attributes(federated_credentials.KIND, ids.strip_prefix(credential.id), {"enabled": False})


def reopen(credential: Item) -> None:
    """Permit exchanges with a federated credential again if its record is enabled.

    Does nothing if the record has changed meanwhile. Raises aws.Unavailable.
    """
    key, sets = federated_credentials.key_of(credential.id), {"enabled": is_enabled(credential)}
    with suppress(Overtaken):
        switching.set_all([(key, sets)], unchanged=[credential])


def mark(before: Item, after: Item) -> Item:
    """Return a changed federated credential, with or without the marker (a hidden attribute).

    A change that disables the credential adds the marker, because keys of its tree may still be active. An enabled
    credential has no marker.
    """
    if is_enabled(after):
        return switches.remove_marker(after, _MARKER, switches.OFFBOARDED, switches.WALK)
    return switches.add_marker(after, _MARKER) if is_enabled(before) else after


def is_enabled(credential: Item) -> bool:
    """Return whether a credential is enabled. False if its record is malformed."""
    return credential.body.get("enabled") is True


def show(credential: Item) -> Item:
    """Return a federated credential as the API shows it: enabled until all keys of its tree are disabled."""
    if _MARKER not in credential.unseen:
        return credential
    body: dict[str, Any] = {**credential.body, "enabled": True}
    return replace(credential, body=body)
