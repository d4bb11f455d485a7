"""`users forget`: replaces the name of a user by the user's id, in records and in audit events.

The command can be stopped at any time and run again. If the user's record has the new name already, the command finds
the user by audit events that contain the old name and the id.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import click

from chalicelib.model import changes
from chalicelib.model.accounts import accounts, switching
from chalicelib.model.accounts.accounts import User
from chalicelib.model.audit import partitions, trail
from chalicelib.model.audit.trail import OPERATOR
from chalicelib.model.base import kinds, records
from chalicelib.model.changes import Change
from chalicelib.operator.accounts import check_account
from chalicelib.operator.command_line import (
    CommandError,
    OperatorCommand,
    UnknownId,
    account_argument,
    reason_option,
)
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition, ConditionFailed, Write
from chalicelib.storage.records import items, table, unique_keys
from chalicelib.storage.records.items import Item

_NAMELESS = ("key_type", "role")  # event details that never contain a name; a fixed word in them can equal the name
_NAMES = ("name", "before.name", "after.name")  # paths of the user's name in the details of an event about a user
_EXISTS = Condition("attribute_exists(#id)")


def forget_user(account: str, name: str) -> tuple[str, int]:
    """Replace a name by the user's id. Return the id and the number of changed events.

    Raises UnknownId, CommandError for the name of a bot, aws.Unavailable.
    """
    check_account(account)
    current = _find_current(account, name)
    former = [id for event in _list_events(account) if (id := _find_user(event, name))]
    id = current or next(iter(former), "")
    if not id:
        raise UnknownId(f"The account {account} has no user {name}, not even in its audit events.")
    if current:
        changes.rewrite(Change(OPERATOR), items.scope(account, kinds.USERS.path), id, lambda item: _rename(item, id))
    if current or accounts.read(account, id):
        switching.update_keys(account, id)
    count = 0
    for event in _list_events(account):
        if sets := _replace_name(event, name, id):
            with suppress(ConditionFailed):  # skip an event that has expired since it was read
                dynamodb.do(Write.update(*event.key, _EXISTS, sets=sets))
                count += 1
    return id, count


def _find_current(account: str, name: str) -> str:
    """Return the id of the user who has a name, or "". Raises CommandError."""
    record = dynamodb.get(accounts.name_key(account, name).scope, unique_keys.ID) or {}
    id = str(record.get("holder", ""))
    if id and not kinds.USERS.has(id):
        raise CommandError(f"{name} is the name of {id}, which is not a user.")
    return id


def _rename(item: Item, name: str) -> Item:
    """Return a copy of a user with a new name. The user's unique keys get the new name too."""
    before = User.of(item.body)
    after = replace(before, name=name)
    keys = records.keys_of_change(item, before, after)
    return replace(item, body=records.body_of_change(item, before, after), unique_keys=keys)


def _list_events(account: str) -> Iterator[Item]:
    for scope in (*partitions.scopes(account), items.scope(account, trail.OF_THE_EDGE)):
        yield from (item for item in table.read_all(scope) if kinds.AUDIT_EVENTS.has(item.id))


def _find_user(event: Item, name: str) -> str:
    """Return the id of the user with the name `name` in an event. Return "" if the event names no such user."""
    actor, id = event.body.get("actor", {}), str(event.body.get("resource_id", ""))
    details = trail.flatten(event.body.get("details", {}))
    if kinds.USERS.has(id) and name in (details.get(path) for path in _NAMES):
        return id
    owner = str(actor.get("owner_id", ""))
    return owner if actor.get("name") == name and kinds.USERS.has(owner) else ""


def _replace_name(event: Item, name: str, id: str) -> Mapping[str, Any]:
    """Return the changes of an audit event that replace a user's name by the user's id.

    The result contains the new values of the changed attributes by path. It is empty if the event does not contain the
    name.
    """
    replacement = _find_user(event, name) or id
    actor, details = event.body.get("actor", {}), event.body.get("details", {})
    sets: dict[str, Any] = {}
    if actor.get("name") == name and kinds.USERS.has(str(actor.get("owner_id", ""))):
        sets["body.actor"] = {**actor, "name": replacement}
    if (after := _replace_texts(details, name, replacement)) != details:
        sets["body.details"] = after
    return sets


def _replace_texts(value: Any, name: str, id: str) -> Any:
    """Return a copy of an event's details with the user's id in place of each text that equals the name."""
    if isinstance(value, Mapping):
        return {key: member if key in _NAMELESS else _replace_texts(member, name, id) for key, member in value.items()}
    if isinstance(value, list):
        return [_replace_texts(member, name, id) for member in value]
    return id if value == name else value


@click.command("forget", cls=OperatorCommand, help="Replace the name of a user by the user's id, also in audit events.")
@account_argument
@click.argument("name", help="The name that the user has, or had.")
@reason_option
def forget(account: str, name: str) -> None:
    """Run the command `users forget`."""
    id, count = forget_user(account, name)
    print(f"The name is replaced by {id}, also in {count} audit events.")
    print("Signed certificates, exported events and backups still contain the name.")
