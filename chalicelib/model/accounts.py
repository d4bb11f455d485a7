"""Accounts and the users and bots in them: who can own a credential. The operator makes them, and admins make bots."""

from dataclasses import dataclass

from chalicelib import clock, ids
from chalicelib.model import kinds
from chalicelib.storage import items, table
from chalicelib.storage.items import Item

SCOPE = "accounts"
OWNERS = {kind.prefix: kind for kind in kinds.named_by("owner_id")}


@dataclass(frozen=True)
class Owner:
    """A user or bot, and whether it may act for the others of its account."""

    id: str
    admin: bool


def new_account(name: str) -> Item:
    """Make an account, not yet stored."""
    id = ids.new(kinds.ACCOUNTS.prefix)
    return Item(SCOPE, id, {"name": name, "created_at": clock.rfc3339(ids.created_at(id))})


def new_user(account: str, name: str, *, admin: bool) -> Item:
    """Make a user of an account, not yet stored."""
    id = ids.new(kinds.USERS.prefix)
    body = {"name": name, "admin": admin, "created_at": clock.rfc3339(ids.created_at(id))}
    return Item(items.scope(account, kinds.USERS.path), id, body)


def owner(account: str, id: str) -> Owner | None:
    """Return the user or bot of that id, or None when the account has none. Raises aws.Unavailable."""
    kind = OWNERS.get(id.partition("_")[0])
    found = table.read(items.scope(account, kind.path), id) if kind else None
    return Owner(found.id, found.body["admin"]) if found else None


def is_active(account: str, id: str) -> bool:
    """Whether a user or bot of the account may act: bots until they are made inactive or deleted, which costs a read.

    Raises aws.Unavailable.
    """
    if kinds.of(id) is not kinds.BOT_USERS:
        return True
    bot = table.read(items.scope(account, kinds.BOT_USERS.path), id)
    return bot is not None and bot.body["active"] is True


def owners(account: str) -> list[Item]:
    """Return all users and bots of an account, the oldest first. Raises aws.Unavailable."""
    found = [item for kind in OWNERS.values() for item in table.newest(items.scope(account, kind.path))]
    return sorted(found, key=lambda item: ids.unprefixed(item.id))
