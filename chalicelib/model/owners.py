"""Switching users, bots and accounts on and off: what lets in for them says so itself, so that one read will do.

Whoever is switched off is first so in their own record: a key that is made meanwhile looks there, in its transaction.
All of it can be repeated after a crash, and is done when the last of their keys knows.
"""

from dataclasses import replace

from chalicelib.model import accounts, kinds
from chalicelib.model.audit import Trail
from chalicelib.storage import items, table
from chalicelib.storage.dynamodb import Condition, Write
from chalicelib.storage.items import Item
from chalicelib.storage.unique_keys import UniqueKey

_LETTING_IN = (kinds.API_KEYS, kinds.SSH_CREDENTIALS)


def switch(account: str, id: str, *, active: bool, by: Trail) -> bool:
    """Switch a user or bot on or off; False when the account has none of that id. Raises aws.Unavailable."""
    found = accounts.read(account, id)
    if found is None or table.rewrite(found.scope, id, _switching(active), also=by.telling("update")) is None:
        return False
    tell(account, id)
    return True


def switch_account(account: str, *, active: bool, by: Trail) -> bool:
    """Switch an account on or off; False when there is none. Raises aws.Unavailable."""
    if table.rewrite(accounts.SCOPE, account, _switching(active), also=by.telling("update")) is None:
        return False
    for owner in accounts.owners(account):
        tell(account, owner.id)
    return True


def tell(account: str, owner: str) -> None:
    """Have the keys and SSH credentials of a user or bot know whether they let in. Raises aws.Unavailable."""
    active = accounts.is_active(account, owner)
    table.set_all([(key, {"active": active}) for key in _letting_in(account, owner)])


def shut(account: str, owner: str) -> None:
    """Have the keys and SSH credentials of a user or bot who is about to go let in no more. Raises aws.Unavailable."""
    table.set_all([(key, {"active": False}) for key in _letting_in(account, owner)])


def owned(account: str, owner: str) -> list[Item]:
    """Return the API keys and SSH credentials of a user or bot. Raises aws.Unavailable."""
    found = [item for kind in _LETTING_IN for item in table.newest(items.scope(account, kind.path))]
    return [item for item in found if item.body["owner_id"] == owner]


def unless_switched(account: str, owner: str, *, active: bool) -> list[Write]:
    """Return the writes that fail where a user or bot, or its account, was switched on or off meanwhile."""
    kind = accounts.OWNERS[owner.partition("_")[0]]
    places = [(items.scope(account, kind.path), owner), (accounts.SCOPE, account)]
    on = "(attribute_not_exists(#body.#active) OR #body.#active = :on)"
    same = Condition(f"attribute_exists(#id) AND {on}", {"on": True})
    return [table.checking(scope, id, same) for scope, id in places] if active else []


def _letting_in(account: str, owner: str) -> list[UniqueKey]:
    return [key for item in owned(account, owner) for key in item.unique_keys]


def _switching(active: bool) -> table.Change:
    return lambda item: replace(item, body={**item.body, "active": active})
