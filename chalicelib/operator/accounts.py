"""Accounts: create, list, switch on and off, and limit them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from chalicelib import ids
from chalicelib.model import changes
from chalicelib.model.accounts import accounts, switching
from chalicelib.model.accounts.accounts import Account, Owner, User
from chalicelib.model.accounts.key_rules import AccountRules
from chalicelib.model.audit import partitions
from chalicelib.model.audit.trail import OPERATOR
from chalicelib.model.base import records
from chalicelib.model.base.switches import Switch
from chalicelib.model.changes import Change
from chalicelib.model.limits import rates
from chalicelib.operator import new_resources
from chalicelib.operator.command_line import (
    CommandError,
    OperatorGroup,
    UnknownId,
    account_argument,
    json_option,
    key_limits,
    reason_option,
)
from chalicelib.storage.records import table
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import Taken

group = OperatorGroup("accounts", help="Accounts, each with its own users, bots and resources.")


def create_account(
    name: str, admin: str, *, expires_in: int | None = None, scopes: Sequence[str] = ()
) -> tuple[Item, Item, str]:
    """Create an account, its first admin and an API key. Return them and the token.

    The key expires after `expires_in` seconds, or never if that is None. A key without scopes may do everything. Raises
    CommandError.
    """
    account = accounts.new_account(new_resources.check_name(name))
    user = accounts.new_user(account.id, new_resources.check_name(admin), admin=True)
    owner = Owner(user.id, admin=True, name=admin)
    key, new = new_resources.build_key(account.id, owner, "The account's first key", expires_in, scopes, AccountRules())
    further = (*new.also, partitions.exclude_edge(account.id))
    try:
        Change(OPERATOR).put(account).put(user).put(key).add(*further).commit()
    except Taken:
        raise CommandError(f"An account named {name} already exists.") from None
    return account, user, new.once["token"]


def list_accounts() -> list[Item]:
    """Return all accounts, the oldest first."""
    return list(reversed(table.list_newest(accounts.SCOPE)))


def check_account(id: str) -> None:
    """Raise UnknownId if no account has this id."""
    if not ids.is_id(id, "acct") or table.read(accounts.SCOPE, id) is None:
        raise UnknownId(f"There is no account {id}.")


def switch_account(account_id: str, to: Switch) -> None:
    """Switch an account on or off, with all keys and SSH credentials. Raises UnknownId."""
    check_account(account_id)
    switching.switch_account(Change(OPERATOR), account_id, to)


def limit_account(
    account_id: str, *, only_reserved: bool | None = None, requests: Mapping[str, int | None] | None = None
) -> None:
    """Set whether an account's tunnels must use reserved names, and the limits of its requests.

    None leaves a limit unchanged. If a call was interrupted, repeat it. Raises UnknownId.
    """
    check_account(account_id)
    limits = {name: value for name, value in (requests or {}).items() if value is not None}

    def edit(item: Item) -> Item:
        before = Account.of(item.body)
        names = before.only_reserved if only_reserved is None else only_reserved
        after = replace(before, only_reserved=names, limits={**before.limits, **limits})
        return replace(item, body=records.body_of_change(item, before, after))

    changes.rewrite(Change(OPERATOR), accounts.SCOPE, account_id, edit)
    if limits:
        switching.copy_rules(account_id)


def list_clashes() -> list[tuple[str, str, list[str]]]:
    """Return names that several users or bots of one account have, with their ids.

    Releases before 2.0.0 permitted a bot with a user's name. If the policy of an SSH authority contains `{user}`, the
    placeholder for the caller's name, both can sign certificates for this name.
    """
    clashes = []
    for account in list_accounts():
        by_name: dict[str, list[str]] = {}
        for owner in accounts.list_owners(account.id):
            by_name.setdefault(User.of(owner.body).name, []).append(owner.id)
        clashes += [(account.id, name, ids) for name, ids in by_name.items() if len(ids) > 1]
    return clashes


def to_json(item: Item) -> dict[str, Any]:
    """Return an account, user or bot as an object for JSON output."""
    return {"id": item.id, **item.body, "active": switching.is_shown_active(item)}


def to_line(item: Item) -> str:
    """Return an account, user or bot as one line of text."""
    admin = " (admin)" if item.body.get("admin") else ""
    return f"{item.id} {item.body['name']}{admin}{'' if switching.is_shown_active(item) else ' (inactive)'}"


@group.command("create", help="Create an account, its first admin and the admin's first key.")
@click.argument("name", help="The account's name.")
@click.option("--admin", default="admin", metavar="NAME", help="The first admin's name (default: admin).")
@key_limits
def _create(name: str, admin: str, expires_in: int | None, scopes: Sequence[str]) -> None:
    account, user, token = create_account(name, admin, expires_in=expires_in, scopes=scopes)
    print(f"account {account.id}\nadmin {user.id}\ntoken {token}")


@group.command("list", help="List all accounts with their users and bots.")
@json_option
def _list(as_json: bool) -> None:
    for account in list_accounts():
        of_account = accounts.list_owners(account.id)
        if as_json:
            print(json.dumps({**to_json(account), "owners": [to_json(owner) for owner in of_account]}))
            continue
        print(to_line(account))
        for owner in of_account:
            print(f"  {to_line(owner)}")


@group.command("clashes", help="List the names that a user and a bot of one account share.")
@json_option
def _list_clashes(as_json: bool) -> None:
    for account, name, owner_ids in list_clashes():
        clash = {"account": account, "name": name, "owners": owner_ids}
        print(json.dumps(clash) if as_json else f"{account} {json.dumps(name)} {' '.join(owner_ids)}")


@group.command("disable", help="Switch off an account, with all its keys and SSH credentials.")
@account_argument
@reason_option
def _disable(account: str) -> None:
    switch_account(account, "off")


@group.command("enable", help="Switch on an account again, with all its keys and SSH credentials.")
@account_argument
@reason_option
def _enable(account: str) -> None:
    switch_account(account, "on")


_RATE = click.IntRange(0, rates.MAX_RATE)


@group.command("limits", help="Set the limits of an account. 0 is no limit.")
@account_argument
@click.option(
    "--only-reserved/--no-only-reserved",
    default=None,
    help="Whether the account's tunnels must use reserved names.",
)
@click.option("--requests-per-second", type=_RATE, metavar="N", help="Requests per second on average.")
@click.option(
    "--burst", type=click.IntRange(1, rates.MAX_RATE), metavar="N", help="Maximum number of requests at once."
)
@click.option(
    "--certificates-per-second", type=_RATE, metavar="N", help="SSH certificates that the account signs per second."
)
@click.option("--events-per-second", type=_RATE, metavar="N", help="Audit events that the account reads per second.")
@reason_option
@click.pass_context
def _limit(context: click.Context, /, account: str, only_reserved: bool | None, **requests: int | None) -> None:
    if only_reserved is None and set(requests.values()) == {None}:
        raise click.UsageError("set at least one limit, for example --requests-per-second N", context)
    limit_account(account, only_reserved=only_reserved, requests=requests)
