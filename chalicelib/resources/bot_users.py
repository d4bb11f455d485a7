"""Bots: they own credentials as users do. Admins only; that a bot is an admin itself, only the operator can say."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from chalicelib.http import auth
from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import Call
from chalicelib.http.errors import Conflict, Forbidden
from chalicelib.http.resource import EditableResource, New, Unique, as_stored, remove
from chalicelib.model import accounts, kinds, owners
from chalicelib.model.audit import Trail
from chalicelib.schema.fields import Described, Name, Shown
from chalicelib.schema.rules import if_null
from chalicelib.storage import table
from chalicelib.storage.items import Item
from chalicelib.storage.unique_keys import UniqueKey


class Create(Described):
    name: Name
    """Unique in the account, users included."""

    active: Annotated[bool, if_null(True)] = True
    """API keys and SSH credentials of an inactive bot are refused from the next request on."""


class Change(Create):
    name: Name = ""


class BotUser(Create, Shown):
    """A program that owns API keys and SSH credentials, as users do. For admins only."""


def make(caller: Caller, id: str, request: Create) -> New:
    return New({**request.values(), "admin": False})


def make_admin(caller: Caller, id: str, request: Create) -> New:
    """Make a bot that may act for the others of its account: for the operator only."""
    return New({**request.values(), "admin": True})


def _unique_keys(account: str, _id: str, body: Mapping[str, Any]) -> tuple[UniqueKey, ...]:
    return accounts.name_keys(account, body["name"])


def _responses(bots: Sequence[Item], call: Call) -> list[dict[str, Any]]:
    return [
        {**{name: value for name, value in shown.items() if name != "admin"}, "active": owners.may_let_in(bot)}
        for shown, bot in zip(as_stored(bots, call), bots, strict=True)
    ]


def _tell(bot: Item, fields: Mapping[str, Any]) -> Item:
    """Update the bot's keys and SSH credentials where `active` was sent."""
    return owners.tell(bot.account, bot.id) if "active" in fields else bot


def _remove(scope: str, id: str, *, check: Callable[[Item], None], by: Trail) -> bool:
    """Remove a bot whose keys let in no more, whatever breaks off: they are switched off before it goes."""
    bot = table.read(scope, id)
    if bot is None:
        return False
    check(bot)
    account = bot.account
    owners.shut(account, id)
    try:
        is_removed = remove(scope, id, check=check, by=by)
    finally:
        owners.tell(account, id)  # also keys that were made meanwhile, and those of a bot that stays
    return is_removed


RESOURCE = EditableResource(
    kind=kinds.BOT_USERS,
    create=Create,
    change=Change,
    response=BotUser,
    make=make,
    errors={
        "GET": (Forbidden,),
        "POST": (Forbidden, Conflict),
        "PATCH": (Forbidden, Conflict),
        "DELETE": (Forbidden, Conflict),
    },
    to_responses=_responses,
    permits=auth.admins,
    follow=_tell,
    mark=owners.marked,
    remove=_remove,
    unique=Unique(("name",), _unique_keys),
)
