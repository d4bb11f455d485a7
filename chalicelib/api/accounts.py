"""Accounts and the users and bots in them: who can own a credential. The operator makes them, and admins make bots."""

from dataclasses import dataclass

from chalicelib import clock, ids
from chalicelib.storage import table
from chalicelib.storage.items import Item

ACCOUNTS = "accounts"
_KINDS = {"usr": "/users", "bot": "/bot_users"}


@dataclass(frozen=True)
class Owner:
    """A user or bot, and whether it may act for the others of its account."""

    id: str
    admin: bool


def scope(account: str, path: str) -> str:
    """Where an account keeps what a path offers."""
    return f"{account}#{path}"


def new_account(name: str) -> Item:
    """An account, not yet stored."""
    id = ids.new("acct")
    return Item(ACCOUNTS, id, {"name": name, "created_at": clock.rfc3339(ids.created_at(id))})


def new_user(account: str, name: str, *, admin: bool) -> Item:
    """A user of an account, not yet stored."""
    id = ids.new("usr")
    body = {"name": name, "admin": admin, "created_at": clock.rfc3339(ids.created_at(id))}
    return Item(scope(account, _KINDS["usr"]), id, body)


def owner(account: str, id: str) -> Owner | None:
    """The user or bot of that id, or None when the account has none. Raises aws.Unavailable."""
    prefix = id.partition("_")[0]
    found = table.read(scope(account, _KINDS[prefix]), id) if prefix in _KINDS else None
    return Owner(found.id, found.body["admin"]) if found else None


def is_active(account: str, id: str) -> bool:
    """Whether a user or bot of the account may act: bots until they are made inactive or deleted, which costs a read.

    Raises aws.Unavailable.
    """
    if id.partition("_")[0] != "bot":
        return True
    bot = table.read(scope(account, _KINDS["bot"]), id)
    return bot is not None and bot.body["active"] is True


def owners(account: str) -> list[Item]:
    """All users and bots of an account, the oldest first. Raises aws.Unavailable."""
    found = [item for path in _KINDS.values() for item in table.newest(scope(account, path))]
    return sorted(found, key=lambda item: ids.unprefixed(item.id))
