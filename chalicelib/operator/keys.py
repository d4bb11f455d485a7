"""API keys: issue, list and revoke them."""

import json
from collections.abc import Sequence

import click

from chalicelib.model import changes
from chalicelib.model.accounts import accounts, key_rules, switching
from chalicelib.model.accounts.api_keys import ApiKey
from chalicelib.model.audit import trail
from chalicelib.model.audit.trail import OPERATOR
from chalicelib.model.base import kinds
from chalicelib.model.changes import Change
from chalicelib.operator import new_resources
from chalicelib.operator.accounts import check_account
from chalicelib.operator.command_line import (
    CommandError,
    OperatorGroup,
    UnknownId,
    account_argument,
    json_option,
    key_limits,
    reason_option,
)
from chalicelib.storage.records import items, table
from chalicelib.storage.records.items import Item

group = OperatorGroup("keys", help="API keys.")


def issue_key(
    account_id: str,
    owner_id: str,
    description: str,
    *,
    expires_in: int | None = None,
    scopes: Sequence[str] = (),
    ignores_rules: bool = False,
) -> tuple[Item, str]:
    """Create an API key for a user or bot. Return it and its token.

    The key expires after `expires_in` seconds, or never if that is None. A key without scopes may do everything. Raises
    UnknownId, and CommandError if a value is invalid, the account's rules do not permit the key, or the owner or
    account is switched off.
    """
    owner = accounts.find_owner(account_id, owner_id)
    if owner is None:
        raise UnknownId(f"The account {account_id} has no user or bot {owner_id}.")
    if not accounts.is_owner_active(account_id, owner_id):
        raise CommandError(f"The owner {owner_id} or the account {account_id} is switched off: enable both first.")
    rules = None if ignores_rules else key_rules.read(account_id)
    key, new = new_resources.build_key(account_id, owner, description, expires_in, scopes, rules)
    Change(OPERATOR).put(key).add(*new.also).commit()
    switching.check_new_key(key)
    return key, new.once["token"]


def list_keys(account_id: str) -> list[Item]:
    """Return an account's API keys, the oldest first. Raises UnknownId."""
    check_account(account_id)
    return table.list_newest(items.scope(account_id, kinds.API_KEYS.path))[::-1]


def revoke_key(account_id: str, key_id: str) -> None:
    """Delete an API key. Raises UnknownId."""
    scope = items.scope(account_id, kinds.API_KEYS.path)
    if not kinds.API_KEYS.has(key_id) or not changes.delete(Change(OPERATOR), scope, key_id):
        raise UnknownId(f"The account {account_id} has no API key {key_id}.")


@group.command("issue", help="Issue an API key for a user or bot.")
@account_argument
@click.argument("owner", help="The id of the user (usr_…) or bot (bot_…) that will own the key.")
@click.option("--description", default="", help="A description of the key's use.")
@key_limits
@click.option("--ignore-rules", is_flag=True, help="Ignore the account's rules for API keys. Requires --reason.")
@reason_option
def _issue(
    account: str, owner: str, description: str, expires_in: int | None, scopes: Sequence[str], ignore_rules: bool
) -> None:
    if ignore_rules and not trail.reason():
        raise CommandError("--ignore-rules requires --reason, for the audit event.")
    key, token = issue_key(
        account, owner, description, expires_in=expires_in, scopes=scopes, ignores_rules=ignore_rules
    )
    print(f"key {key.id}\ntoken {token}")


@group.command("list", help="List the API keys of an account.")
@account_argument
@json_option
def _list(account: str, as_json: bool) -> None:
    for key in list_keys(account):
        if as_json:
            print(json.dumps({"id": key.id, **{name: value for name, value in key.body.items() if name != "token"}}))
            continue
        stored = ApiKey.of(key.body)
        expiry, scopes = stored.expires_at or "-", ",".join(stored.scopes or ["*"])
        print(f"{key.id} {stored.owner_id} {expiry} {scopes} {json.dumps(stored.description)}")


@group.command("revoke", help="Delete an API key. The next request with it is refused.")
@account_argument
@click.argument("key", help="The key's id (ak_…).")
@reason_option
def _revoke(account: str, key: str) -> None:
    revoke_key(account, key)
