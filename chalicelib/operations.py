"""What the operator does and no endpoint offers: accounts, their users and bots, first keys, revoking once more."""

from typing import TypeVar

from chalicelib import ids
from chalicelib.api import accounts, fields
from chalicelib.api.caller import Caller
from chalicelib.api.fields import Shape
from chalicelib.resources import bot_users, tunnels
from chalicelib.resources.api_keys import API_KEYS, Create
from chalicelib.resources.bot_users import BOT_USERS
from chalicelib.resources.ssh_credentials import SSH_CREDENTIALS
from chalicelib.resources.tunnels import AgentTunnel
from chalicelib.storage import dynamodb, table
from chalicelib.storage.aws import AwsError
from chalicelib.storage.claims import Taken
from chalicelib.storage.items import Item

S = TypeVar("S", bound=Shape)
DEMO_LEASE = 15  # seconds

_REVOCABLE = {kind.prefix: kind for kind in (API_KEYS, SSH_CREDENTIALS, BOT_USERS)}


class Refused(Exception):
    """What the operator asks for cannot be done; the sentence says why."""


class Unknown(Refused):
    """There is no such account, user or bot."""


def create_account(name: str, admin: str) -> tuple[Item, Item, str]:
    """An account with its first admin and the token of the admin's first key, all or nothing. Raises Refused."""
    account = accounts.new_account(_checked(name))
    user = accounts.new_user(account.id, _checked(admin), admin=True)
    key, token = _key(Caller(account.id, user.id, admin=True), "The account's first key")
    table.create(account, user, key)
    return account, user, token


def add_owner(account_id: str, prefix: str, name: str, *, admin: bool) -> Item:
    """A user ("usr") or bot ("bot") in an account. Raises Unknown, and Refused for the name."""
    _check_account(account_id)
    make = _bot if prefix == "bot" else accounts.new_user
    owner = make(account_id, _checked(name), admin=admin)
    try:
        table.create(owner)
    except Taken:
        raise Refused(f"The account {account_id} has a bot of that name.") from None
    return owner


def issue_key(account_id: str, owner_id: str, description: str) -> tuple[Item, str]:
    """An API key for a user or bot, and its token. Raises Unknown, and Refused for the description."""
    owner = accounts.owner(account_id, owner_id)
    if owner is None:
        raise Unknown(f"The account {account_id} has no user or bot {owner_id}.")
    key, token = _key(Caller(account_id, owner.id, owner.admin), description)
    table.create(key)
    return key, token


def list_accounts() -> list[Item]:
    """All accounts, the oldest first."""
    return list(reversed(table.newest(accounts.ACCOUNTS)))


def open_demo_tunnel(account_id: str) -> str:
    """A tunnel to see one by, online for DEMO_LEASE seconds; its id. Raises Unknown."""
    _check_account(account_id)
    name = ids.unprefixed(ids.new("ep")).lower()
    tunnel = AgentTunnel(
        tunnel_session=ids.new("ts"),
        endpoint=ids.new("ep"),
        region="local",
        proto="https",
        public_url=f"https://{name}.tunnels.example",
        forwards_to="http://localhost:80",
        metadata="A demonstration",
        metadata_0="A demonstration, as version 0 shows it",
    )
    return tunnels.open_tunnel(account_id, tunnel, lease=DEMO_LEASE)


def revoked_by(later: str) -> dict[tuple[str, str], Item]:
    """What lets in by this table and no more by the one named, a later state of it; by account and id.

    API keys, SSH credentials, active bots: after a restore, what was revoked since. Raises Refused when the later
    table cannot tell.
    """
    if later == dynamodb.table_name():
        raise Refused(f"{later} is this table itself: TABLE_NAME names the one that was restored.")
    known = _account_ids()
    admitted = _admitted(known)
    try:
        with dynamodb.in_table(later):
            still = _account_ids()
            kept = _admitted(still)
    except AwsError as error:
        raise Refused(f"The table {later} cannot be read ({error.code}).") from None
    if gone := {*known} - {*still}:
        raise Refused(f"The table {later} is no later state of this one: it lacks the account {min(gone)}.")
    return {place: item for place, item in admitted.items() if place not in kept}


def revocable(line: str) -> tuple[str, str]:
    """The account and id that a line of such a list begins with. Raises Refused."""
    account_id, id, *_ = *line.split(), "", ""
    if not (ids.is_id(account_id, "acct") and ids.is_id(id, *_REVOCABLE)):
        raise Refused(f"Not a line of such a list: {line.strip()!r}. Nothing was revoked.")
    return account_id, id


def revoke(account_id: str, id: str) -> bool:
    """Delete a key or credential, make a bot inactive: that can be taken back. False when there is none."""
    kind = _REVOCABLE[id.partition("_")[0]]
    scope = accounts.scope(account_id, kind.path)
    if kind is BOT_USERS:
        return table.change(scope, id, {"active": False}) is not None
    return table.delete(scope, id)


def _account_ids() -> list[str]:
    return [account.id for account in list_accounts()]


def _admitted(account_ids: list[str]) -> dict[tuple[str, str], Item]:
    found = {
        (account_id, item.id): item
        for account_id in account_ids
        for kind in _REVOCABLE.values()
        for item in table.newest(accounts.scope(account_id, kind.path))
    }
    return {place: item for place, item in found.items() if item.body.get("active", True)}


def _check_account(id: str) -> None:
    if not ids.is_id(id, "acct") or table.read(accounts.ACCOUNTS, id) is None:
        raise Unknown(f"There is no account {id}.")


def _checked(name: str) -> str:
    """The name, if a bot could have it: all names obey the same rule."""
    return _asked(bot_users.Create, {"name": name}).name


def _bot(account_id: str, name: str, *, admin: bool) -> Item:
    asked = _asked(bot_users.Create, {"name": name})
    id = ids.new(BOT_USERS.prefix)
    caller = Caller(account_id, id, admin=admin)
    make = bot_users.make_admin if admin else bot_users.make
    return BOT_USERS.stored(caller, id, make(caller, id, asked), scope=caller.scope(BOT_USERS.path))


def _key(caller: Caller, description: str) -> tuple[Item, str]:
    asked = _asked(Create, {"description": description})
    id = ids.new(API_KEYS.prefix)
    new = API_KEYS.make(caller, id, asked)
    return API_KEYS.stored(caller, id, new, scope=caller.scope(API_KEYS.path)), new.once["token"]


def _asked(shape: type[S], values: dict[str, str]) -> S:
    asked, faults = fields.check(shape, values)
    if asked is None:
        field, rule = next(iter(faults.items()))
        raise Refused(f"The {field} {rule}.")
    return asked
