"""Builds resources that operator commands create. The rules for the body of a POST apply to them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from chalicelib import clock
from chalicelib.http import messages
from chalicelib.http.auth import Caller
from chalicelib.http.errors import Forbidden
from chalicelib.http.resource import EditableResource, New
from chalicelib.model.accounts.accounts import Owner
from chalicelib.model.accounts.key_rules import AccountRules
from chalicelib.model.audit.trail import OPERATOR
from chalicelib.operator.command_line import CommandError
from chalicelib.resources.accounts import api_keys, bot_users
from chalicelib.schema.shapes import Shape
from chalicelib.storage.records.items import Item

S = TypeVar("S", bound=Shape)


def check_name(name: str) -> str:
    """Return a name that an account, user or bot may have. Raises CommandError for any other name."""
    return _read(bot_users.BotCreate, {"name": name}).name


def build_bot(account_id: str, name: str, *, admin: bool) -> Item:
    """Return a new bot, which is not stored yet. Raises CommandError."""
    make = bot_users.make_admin if admin else None
    return _build(replace(bot_users.RESOURCE, make=make), Caller(account_id, "", admin=admin), {"name": name})[0]


def build_key(
    account_id: str,
    owner: Owner,
    description: str,
    expires_in: int | None,
    scopes: Sequence[str],
    rules: AccountRules | None,
) -> tuple[Item, New]:
    """Return a new API key, which is not stored yet. Raises CommandError.

    The key expires after `expires_in` seconds, or never if that is None. A key without scopes may do everything.
    `rules` are the account's rules for API keys. With None, no rules apply.
    """
    expiry = None if expires_in is None else clock.rfc3339(clock.now() + timedelta(seconds=expires_in))
    caller = Caller(account_id, owner.id, owner.admin, key=OPERATOR.actor.type, name=owner.name)
    values = {"description": description, "expires_at": expiry, "scopes": [*scopes] or None}
    try:
        return _build(replace(api_keys.RESOURCE, make=partial(api_keys.make_within, rules)), caller, values)
    except Forbidden as error:
        field, rule = next(iter(error.details.items()))
        raise CommandError(f"The {field} {rule}.") from None


def _build(resource: EditableResource, caller: Caller, values: Mapping[str, Any]) -> tuple[Item, New]:
    return resource.new(caller, _read(resource.create, values), scope=caller.scope(resource.kind.path))


def _read(shape: type[S], values: Mapping[str, Any]) -> S:
    content, errors = messages.read(shape, values, {})
    if content is None:
        field, rule = next(iter(errors.items()))
        raise CommandError(f"The {field} {rule}.")
    return content
