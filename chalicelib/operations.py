"""The operator's work, which no endpoint offers: accounts, users, first keys, the store."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

from chalicelib import clock, edges, ids, modules, resources
from chalicelib.http import messages
from chalicelib.http.auth import Caller
from chalicelib.http.resource import EditableResource, New
from chalicelib.model import accounts, changes, kinds, owners, shards
from chalicelib.model.accounts import Owner, Switch, User
from chalicelib.model.audit import OPERATOR, keep_key, operator_event
from chalicelib.model.changes import Change
from chalicelib.model.kinds import Kind
from chalicelib.model.migrations import Forms
from chalicelib.model.records import Stored
from chalicelib.model.ssh import suspensions
from chalicelib.resources import api_keys, bot_users
from chalicelib.schema.shapes import Shape
from chalicelib.storage import dynamodb, items, provisioning, table, vault
from chalicelib.storage.items import Item
from chalicelib.storage.unique_keys import Taken

S = TypeVar("S", bound=Shape)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 60 * 60, "d": 24 * 60 * 60, "w": 7 * 24 * 60 * 60}
_MAX_SECONDS = 100 * 365 * 24 * 60 * 60


class CommandError(Exception):
    """The operator asks for something that cannot be done; the message says why."""


class Unknown(CommandError):
    """There is no such account, user or bot."""


def create_account(
    name: str, admin: str, *, expires_in: int | None = None, scopes: Sequence[str] = ()
) -> tuple[Item, Item, str]:
    """Create an account, its first admin and the admin's first key; return them and the token. Raises CommandError.

    The key ends in so many seconds, None for never, and has the scopes, none for all.
    """
    account = accounts.new_account(_checked(name))
    user = accounts.new_user(account.id, _checked(admin), admin=True)
    key, new = _key(account.id, Owner(user.id, admin=True, name=admin), "The account's first key", expires_in, scopes)
    further = keep_key(account.id, user.id, key.id), shards.without_edge(account.id)
    try:
        Change(OPERATOR).put(account).put(user).put(key).also(*further).commit()
    except Taken:
        raise CommandError(f"There is an account of the name {name} already.") from None
    return account, user, new.once["token"]


def add_owner(account_id: str, prefix: str, name: str, *, admin: bool) -> Item:
    """Create a user ("usr") or bot ("bot") in an account. Raises Unknown, and CommandError for the name."""
    check_account(account_id)
    make = _bot if prefix == "bot" else accounts.new_user
    owner = make(account_id, _checked(name), admin=admin)
    try:
        Change(OPERATOR).put(owner).commit()
    except Taken:
        raise CommandError(f"The account {account_id} has a user or bot of that name already.") from None
    return owner


def switch_owner(account_id: str, owner_id: str, to: Switch) -> None:
    """Switch a user or bot on or off, with all their keys and SSH credentials. Raises Unknown."""
    if not owners.switch(account_id, owner_id, to, by=OPERATOR):
        raise Unknown(f"The account {account_id} has no user or bot {owner_id}.")


def switch_account(account_id: str, to: Switch) -> None:
    """Switch an account on or off, with all keys and SSH credentials of its owners. Raises Unknown."""
    check_account(account_id)
    owners.switch_account(Change(OPERATOR), account_id, to)


def limit_account(account_id: str, *, only_reserved: bool) -> None:
    """Let tunnels of an account have names that it has reserved and no others, or any again. Raises Unknown."""
    check_account(account_id)

    def limited(item: Item) -> Item:
        return replace(item, body={**item.body, "only_reserved": only_reserved})

    changes.rewrite(Change(OPERATOR), accounts.SCOPE, account_id, limited)


def suspend(id: str) -> None:
    """Suspend an account, or an SSH credential or user certificate of any account: it lets nobody in, its tunnels end.

    Raises CommandError.
    """
    _switch(Change(OPERATOR).also(operator_event(f"{_noun(id)}.suspend", id)), id, "off")


def resume(id: str) -> None:
    """Let in again what was suspended. Raises CommandError."""
    _switch(Change(OPERATOR).also(operator_event(f"{_noun(id)}.resume", id)), id, "on")


def _switch(change: Change, id: str, to: Switch) -> None:
    kind = kinds.of(id)
    if kind is kinds.ACCOUNTS:
        owners.switch_account(change, id, to)
    elif not any(suspensions.switch(change, kind, it.id, id, to) for it in list_accounts()):
        raise CommandError(f"There is no {kind.name} {id}.")


def _noun(id: str) -> str:
    """Return the noun of what can be suspended. Raises CommandError."""
    kind = next((kind for kind in suspensions.KINDS if kind.has(id)), None)
    if kind is None:
        check_account(id)
    return (kind or kinds.ACCOUNTS).noun


def delete_user(account_id: str, user_id: str) -> None:
    """Remove a user who owns nothing. Raises Unknown, CommandError."""
    user = accounts.read(account_id, user_id)
    if user is None or not kinds.USERS.has(user_id):
        raise Unknown(f"The account {account_id} has no user {user_id}.")
    if owned := owners.list_keys_and_credentials(account_id, user_id):
        raise CommandError(f"The user {user_id} owns {len(owned)} keys and credentials, for example {owned[0].id}.")
    changes.delete(Change(OPERATOR), user.scope, user_id)
    owners.update_keys(account_id, user_id)  # a key that was made meanwhile lets nobody in


def list_owners(account_id: str, prefix: str) -> list[Item]:
    """Return the users ("usr") or bots ("bot") of an account, the oldest first. Raises Unknown."""
    check_account(account_id)
    return [owner for owner in accounts.list_owners(account_id) if owner.id.startswith(f"{prefix}_")]


def list_clashes() -> list[tuple[str, str, list[str]]]:
    """Return each name that several users and bots of one account share, with the account and their ids.

    Earlier editions let a bot have a user's name. A policy of an SSH authority that says {user} lets both sign as it.
    """
    found = []
    for account in list_accounts():
        by_name: dict[str, list[str]] = {}
        for owner in accounts.list_owners(account.id):
            by_name.setdefault(User.of(owner.body).name, []).append(owner.id)
        found += [(account.id, name, ids) for name, ids in by_name.items() if len(ids) > 1]
    return found


def list_keys(account_id: str) -> list[Item]:
    """Return the API keys of an account, the oldest first. Raises Unknown."""
    check_account(account_id)
    return table.newest(items.scope(account_id, kinds.API_KEYS.path))[::-1]


def revoke_key(account_id: str, key_id: str) -> None:
    """Delete an API key. Raises Unknown."""
    scope = items.scope(account_id, kinds.API_KEYS.path)
    if not kinds.API_KEYS.has(key_id) or not changes.delete(Change(OPERATOR), scope, key_id):
        raise Unknown(f"The account {account_id} has no API key {key_id}.")


def issue_key(
    account_id: str, owner_id: str, description: str, *, expires_in: int | None = None, scopes: Sequence[str] = ()
) -> tuple[Item, str]:
    """Create an API key for a user or bot; return it and its token.

    It ends in so many seconds, None for never, and has the scopes, none for all. Raises Unknown, and CommandError for
    what breaks a rule, and where the owner or the account is switched off.
    """
    owner = accounts.find_owner(account_id, owner_id)
    if owner is None:
        raise Unknown(f"The account {account_id} has no user or bot {owner_id}.")
    if not accounts.is_owner_active(account_id, owner_id):
        raise CommandError(f"{owner_id} or its account is switched off: enable it first.")
    key, new = _key(account_id, owner, description, expires_in, scopes)
    Change(OPERATOR).put(key).also(*new.also).commit()
    owners.check_new_key(key)
    return key, new.once["token"]


def list_accounts() -> list[Item]:
    """Return all accounts, the oldest first."""
    return list(reversed(table.newest(accounts.SCOPE)))


def create_store() -> list[str]:
    """Create the table and the key alias that the environment names; return a line for each.

    Raises CommandError where both are there, or the key can have no alias.
    """
    table_name, key_id = dynamodb.table_name(), vault.key_id()
    if not key_id.startswith("alias/"):
        raise CommandError(f"KEY_ID is {key_id}: a key can only be made behind an alias, alias/….")
    is_new = {f"table {table_name}": provisioning.create_table(), f"key {key_id}": provisioning.create_key()}
    if not any(is_new.values()):
        raise CommandError(f"The table {table_name} and the key {key_id} are there already: nothing was created.")
    return [f"{what} {'was created' if new else 'is there already'}" for what, new in is_new.items()]


def forms() -> Forms:
    """Return the stored types of each kind and of its modules, accounts included, which no endpoint shows."""
    own: dict[Kind, type[Stored]] = {kinds.ACCOUNTS: accounts.Account}
    served = {resource.kind: resource for resource in (*resources.ALL, *edges.ALL)}
    return Forms(
        {**own, **{kind: resource.stored for kind, resource in served.items()}},
        {kind: {module.name: module.stored for module in modules.of(kind)} for kind in served},
    )


def duration(text: str) -> int:
    """Return the seconds that the operator writes as 90d, 12h, 30m, 45s or 45. Raises ValueError."""
    form = re.fullmatch(r"([0-9]{1,9})([smhdw]?)", text)
    seconds = int(form[1]) * _SECONDS[form[2]] if form else 0
    if not 0 < seconds <= _MAX_SECONDS:
        raise ValueError(text)
    return seconds


def check_account(id: str) -> None:
    """Raise Unknown where there is no such account."""
    if not ids.is_id(id, "acct") or table.read(accounts.SCOPE, id) is None:
        raise Unknown(f"There is no account {id}.")


def _checked(name: str) -> str:
    """Return a name. Raises CommandError where it breaks the rule of bots' names, which accounts and users share."""
    return _read(bot_users.BotCreate, {"name": name}).name


def _bot(account_id: str, name: str, *, admin: bool) -> Item:
    make = bot_users.make_admin if admin else None
    return _new(replace(bot_users.RESOURCE, make=make), Caller(account_id, "", admin=admin), {"name": name})[0]


def _key(
    account_id: str, owner: Owner, description: str, expires_in: int | None, scopes: Sequence[str]
) -> tuple[Item, New]:
    ends = None if expires_in is None else clock.rfc3339(clock.now() + timedelta(seconds=expires_in))
    caller = Caller(account_id, owner.id, owner.admin, key=OPERATOR.actor.type, name=owner.name)
    values = {"description": description, "expires_at": ends, "scopes": [*scopes] or None}
    return _new(api_keys.RESOURCE, caller, values)


def _new(resource: EditableResource, caller: Caller, values: Mapping[str, Any]) -> tuple[Item, New]:
    """Return a resource as a POST would make it, not yet stored, with the New of its `make`. Raises CommandError."""
    return resource.new(caller, _read(resource.create, values), scope=caller.scope(resource.kind.path))


def _read(shape: type[S], values: Mapping[str, Any]) -> S:
    content, wrong = messages.read(shape, values, {})
    if content is None:
        field, rule = next(iter(wrong.items()))
        raise CommandError(f"The {field} {rule}.")
    return content
