"""Switching users, bots and accounts on and off.

The state is copied into the unique keys of API keys and credentials, so that authentication requires only one read. A
switch changes the record of the owner or account first, then the copies. A new API key is stored first, then the state
of its owner is read. So a key never misses a concurrent switch.

The record of a switched-off owner or account has a marker (a hidden attribute) until all copies are updated. Until
then, the API shows the owner or account as active. So a crash in between is visible, and each function can be called
again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from chalicelib.model import changes
from chalicelib.model.accounts import accounts, api_keys, copies, federated_credentials, ownership
from chalicelib.model.accounts.accounts import User
from chalicelib.model.audit.trail import Trail
from chalicelib.model.base import kinds, records, switches
from chalicelib.model.base.switches import Switch
from chalicelib.model.changes import Change
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, Write
from chalicelib.storage.records import direct_writes, items, table, unique_keys, writes
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import UniqueKey
from chalicelib.storage.records.writes import Overtaken

_MARKER = "may_let_in"  # hidden attribute of a switched-off record, while some of its API keys may still be active


class LastAdmin(Exception):
    """The change would leave the account without an active admin."""


def switch(account: str, id: str, to: Switch, *, by: Trail) -> bool:
    """Switch a user or bot on or off. Return False if the account has no such user or bot. Raises aws.Unavailable."""
    item = accounts.read(account, id)
    if item is None or _switch(Change(by), item.scope, id, to) is None:
        return False
    update_keys(account, id)
    return True


def switch_account(change: Change, account: str, to: Switch) -> bool:
    """Switch an account on or off. Return False if it does not exist. Raises aws.Unavailable."""
    switched = _switch(change, accounts.SCOPE, account, to)
    if switched is None:
        return False
    for owner in accounts.list_owners(account):
        update_keys(account, owner.id)
    remove_marker(switched)  # the marker stays if another switch has changed the record: that switch updates the keys
    return True


def update_keys(account: str, id: str, keys: Sequence[UniqueKey] | None = None) -> Item:
    """Copy the name and state of a user or bot to its unique keys. Return the owner's record.

    `keys` are the unique keys of its API keys and credentials, if the caller has read them. Restarts if the owner or
    the account changes meanwhile, so that a later switch is never undone. The record of an unknown owner has an empty
    body. Raises aws.Unavailable.
    """

    def attempt() -> Item:
        pair = copies.read_owner_and_account(account, id)
        identities = (key for key in pair[0].unique_keys if key.kind == federated_credentials.IDENTITY)
        owned = ownership.list_unique_keys(account, id) if keys is None else keys
        set_all([(key, copies.fields_of(key, pair)) for key in (*owned, *identities)], unchanged=pair)
        owner = remove_marker(pair[0])
        if owner is None:
            raise Overtaken
        return owner

    return writes.retry(attempt)


def check_new_key(item: Item) -> None:
    """Update a new key or federated credential if its owner has changed meanwhile. Raises aws.Unavailable.

    Call this function before the response contains the token, because a client must not use an outdated key.
    """
    owner = ownership.owner_of(item)
    if not owner:  # a federated credential with `owner_claim` has no owner
        copy_rules(item.account)
        return
    pair = copies.read_owner_and_account(item.account, owner)
    if any(copies.differs(key.attributes, copies.fields_of(key, pair)) for key in item.unique_keys):
        update_keys(item.account, owner)


def copy_rules(account: str) -> None:
    """Copy the rules of an account to the token records of its API keys, so that authentication requires one read.

    Federated credentials get copies too. Records with the same rules are not written, so an interrupted call can be
    repeated. Restarts if the account changes meanwhile. Raises aws.Unavailable.
    """

    def attempt() -> None:
        record = table.find(accounts.SCOPE, account)
        if record is not None:
            set_all([*_rules_to_copy(record)], unchanged=[record])

    writes.retry(attempt)


def set_all(changes: Sequence[tuple[UniqueKey, Mapping[str, Any]]], *, unchanged: Iterable[Item]) -> None:
    """Set attributes of unique keys, on the condition that the items `unchanged` are still the same.

    Raises Overtaken, aws.Unavailable.
    """
    same = [Write.check(item.scope, item.id, items.require_unchanged(item)) for item in unchanged]
    if not direct_writes.set_all(changes, checks=same):
        raise Overtaken


def _rules_to_copy(account: Item) -> Iterator[tuple[UniqueKey, Mapping[str, Any]]]:
    """Yield the unique keys with outdated copies of an account's rules. Each comes with the rules that it must have."""
    for kind, key_of in (
        (kinds.API_KEYS, api_keys.key_of),
        (kinds.FEDERATED_CREDENTIALS, federated_credentials.key_of),
    ):
        keys = [key_of(item.id) for item in table.read_all(items.scope(account.id, kind.path))]
        fields = copies.rules_of(keys[0].kind, account) if keys else {}
        key_records = table.read_records((key.scope, unique_keys.ID) for key in keys)
        stored = {scope: record.get("body", {}) for (scope, _), record in key_records.items()}
        lacking = (key for key in keys if key.scope in stored and copies.differs(stored[key.scope], fields))
        yield from ((key, fields) for key in lacking)


def update_new_credential(item: Item) -> None:
    """Copy the owner's field `active` to the unique keys of a new SSH credential.

    Does nothing if a switch has already copied this field. Without the copy, each sign-in must also read the owner's
    record. Raises aws.Unavailable.
    """
    active = copies.are_active(copies.read_owner_and_account(item.account, ownership.owner_of(item)))
    for key in item.unique_keys:
        direct_writes.set_once(key, "active", active)


def is_shown_active(item: Item) -> bool:
    """Return whether to show a user, bot or account as active.

    It is shown as active until all its keys are inactive too.
    """
    return switches.is_on(item) or _MARKER in item.unseen


def rewrite(change: Change, scope: str, id: str, edit: Callable[[Item], Item]) -> Item | None:
    """Replace a user or bot by the result of `edit`. Call `update_keys` afterwards.

    Raises LastAdmin if no active admin would be left, and the errors of `changes.rewrite`.
    """

    def attempt() -> Item | None:
        before = table.read(scope, id)
        if before is None:
            return None
        update = change.rewrite(before, edit)
        leaves = update.item is not None and not switches.is_on(update.item)
        return update.add(*_require_other_admin(before) if leaves else ()).commit()

    return writes.retry(attempt)


def remove(change: Change, scope: str, id: str, *, may_be_last: bool = False) -> bool:
    """Remove a user or bot. Return False if it does not exist.

    Its keys are deactivated first, so that no key is valid after a crash. Raises InUse, the errors of `Change.commit`,
    and LastAdmin for the last active admin, unless `may_be_last`.
    """

    def attempt() -> bool:
        bot = table.find(scope, id)
        if bot is None:
            return False
        bot = _remove_expired_referrers(bot)
        removal = change.remove(bot).add(*(() if may_be_last else _require_other_admin(bot)))
        deactivate_keys(bot.account, id)
        try:
            removal.commit()
        finally:
            # After a removal, this call deactivates keys that were created meanwhile. After a failed removal, it
            # activates all keys again.
            update_keys(bot.account, id)
        return True

    return writes.retry(attempt)


def mark_switch(before: Item, after: Item) -> Item:
    """Return a changed user, bot or account. Add or remove its marker, a hidden attribute.

    A change that switches the item off adds the marker, because some of its keys may
    still be active. An item that is switched on has no marker.
    """
    if switches.is_on(after):
        return switches.remove_marker(after, _MARKER, switches.OFFBOARDED, switches.WALK)
    return switches.add_marker(after, _MARKER) if switches.is_on(before) else after


def deactivate_keys(account: str, owner: str) -> None:
    """Deactivate the keys and SSH credentials of a user or bot. Raises aws.Unavailable."""
    direct_writes.set_all([(key, {"active": False}) for key in ownership.list_unique_keys(account, owner)])


def _remove_expired_referrers(bot: Item) -> Item:
    """Remove expired API keys from the list of items that refer to a bot. Return the changed bot.

    Otherwise, these API keys would prevent the deletion of the bot. Raises aws.Unavailable.
    """
    scope = items.scope(bot.account, kinds.API_KEYS.path)
    keys = {path for path in bot.referrers if path.startswith(f"{kinds.API_KEYS.path}/")}
    expired = {path for path in keys if table.find(scope, path.rpartition("/")[2]) is None}
    if expired:
        exists = Condition("attribute_exists(#id)")
        dynamodb.do(Write.update(*bot.key, exists, removes={"pointed_by": expired}))
    return replace(bot, referrers=bot.referrers - expired)


def _require_other_admin(item: Item) -> list[Write]:
    """Return the check that another active admin of the account stays unchanged.

    Use the check when `item`, a user or bot, is removed or switched off. Returns no check if `item` is not an active
    admin. Raises LastAdmin, aws.Unavailable.
    """
    if not _is_admin(item):
        return []
    other_admins = [owner for owner in accounts.list_owners(item.account) if owner.id != item.id and _is_admin(owner)]
    if not other_admins:
        raise LastAdmin
    return [Write.check(other_admins[0].scope, other_admins[0].id, items.require_unchanged(other_admins[0]))]


def _is_admin(item: Item) -> bool:
    return any(stored.admin and stored.active for _, stored in records.decode_each(User, [item]))


def _switch(change: Change, scope: str, id: str, to: Switch) -> Item | None:
    return changes.rewrite(change, scope, id, lambda item: mark_switch(item, switches.turn(item, to)))


def remove_marker(item: Item, name: str = _MARKER) -> Item | None:
    """Remove the marker from an item's record. Return None if the record has changed. Raises aws.Unavailable."""
    after = switches.remove_marker(item, name)
    return item if after == item else direct_writes.exchange(item, after)
