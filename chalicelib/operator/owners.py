"""Users and bots: add, list, switch on and off, and delete them."""

import json
from typing import cast

import click

from chalicelib.model.accounts import accounts, ownership, switching
from chalicelib.model.audit.trail import OPERATOR
from chalicelib.model.base import kinds
from chalicelib.model.base.switches import Switch
from chalicelib.model.changes import Change
from chalicelib.model.limits import item_counts
from chalicelib.operator import new_resources
from chalicelib.operator.accounts import check_account, to_json, to_line
from chalicelib.operator.command_line import (
    CommandError,
    OperatorCommand,
    OperatorGroup,
    UnknownId,
    account_argument,
    json_option,
    reason_option,
)
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import Taken

users = OperatorGroup("users", help="The users of an account.")
bots = OperatorGroup("bots", help="The bots of an account.")


def add_owner(account_id: str, prefix: str, name: str, *, admin: bool) -> Item:
    """Create a user ("usr") or bot ("bot"). Raises UnknownId, CommandError."""
    check_account(account_id)
    build = new_resources.build_bot if prefix == kinds.BOT_USERS.prefix else accounts.new_user
    owner = build(account_id, new_resources.check_name(name), admin=admin)
    uncounted = [item_counts.forget(account_id, owner.path)] if prefix == kinds.USERS.prefix else []
    try:
        Change(OPERATOR).put(owner).add(*uncounted).commit()
    except Taken:
        raise CommandError(f"The account {account_id} already has a user or bot with this name.") from None
    return owner


def switch_owner(account_id: str, owner_id: str, to: Switch) -> None:
    """Switch a user or bot on or off, with its keys and SSH credentials. Raises UnknownId."""
    if not switching.switch(account_id, owner_id, to, by=OPERATOR):
        raise UnknownId(f"The account {account_id} has no user or bot {owner_id}.")


def delete_user(account_id: str, user_id: str) -> None:
    """Delete a user who owns nothing. Raises UnknownId, CommandError."""
    user = accounts.read(account_id, user_id)
    if user is None or not kinds.USERS.has(user_id):
        raise UnknownId(f"The account {account_id} has no user {user_id}.")
    if keys := ownership.list_keys_and_credentials(account_id, user_id):
        raise CommandError(
            f"The user {user_id} owns {len(keys)} keys and credentials, for example {keys[0].id}: offboard the user."
        )
    switching.remove(Change(OPERATOR), user.scope, user_id, may_be_last=True)


def list_owners(account_id: str, prefix: str) -> list[Item]:
    """Return an account's users ("usr") or bots ("bot"), the oldest first. Raises UnknownId."""
    check_account(account_id)
    return [owner for owner in accounts.list_owners(account_id) if owner.id.startswith(f"{prefix}_")]


def _find_prefix(context: click.Context) -> str:
    """Return the id prefix for the group of the command: users or bots."""
    is_bot = cast(click.Context, context.parent).command is bots
    return (kinds.BOT_USERS if is_bot else kinds.USERS).prefix


@click.command("add", cls=OperatorCommand, help="Add a user or bot.")
@account_argument
@click.argument("name", help="The name of the user or bot.")
@click.option("--admin", is_flag=True, help="The user or bot can act for all users and bots of the account.")
@click.pass_context
def _add(context: click.Context, account: str, name: str, admin: bool) -> None:
    print(add_owner(account, _find_prefix(context), name, admin=admin).id)


@click.command("list", cls=OperatorCommand, help="List the users or bots of an account.")
@account_argument
@json_option
@click.pass_context
def _list(context: click.Context, account: str, as_json: bool) -> None:
    for owner in list_owners(account, _find_prefix(context)):
        print(json.dumps(to_json(owner)) if as_json else to_line(owner))


@click.command(
    "disable", cls=OperatorCommand, help="Switch off a user or bot, with the owner's keys and SSH credentials."
)
@account_argument
@click.argument("owner", help="The id of the user (usr_…) or bot (bot_…).")
@reason_option
def _disable(account: str, owner: str) -> None:
    switch_owner(account, owner, "off")


@click.command("enable", cls=OperatorCommand, help="Switch on a user or bot again.")
@account_argument
@click.argument("owner", help="The id of the user (usr_…) or bot (bot_…).")
@reason_option
def _enable(account: str, owner: str) -> None:
    switch_owner(account, owner, "on")


@users.command("delete", help="Delete a user who owns nothing.")
@account_argument
@click.argument("user", help="The user's id (usr_…).")
@reason_option
def _delete(account: str, user: str) -> None:
    delete_user(account, user)


for _group in (users, bots):
    for _command in (_add, _list, _disable, _enable):
        _group.add_command(_command)
