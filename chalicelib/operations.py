"""What the operator does and no endpoint offers: accounts, their users and bots, and first keys."""

from chalicelib import ids
from chalicelib.api import accounts
from chalicelib.api.caller import Caller
from chalicelib.resources import tunnels
from chalicelib.resources.api_keys import API_KEYS, Create
from chalicelib.resources.tunnels import AgentTunnel
from chalicelib.storage import table
from chalicelib.storage.items import Item

DEMO_LEASE = 15  # seconds


class Unknown(Exception):
    """There is no such account, user or bot."""


def create_account(name: str, admin: str) -> tuple[Item, Item, str]:
    """An account with its first admin and the token of the admin's first key, all or nothing."""
    account = accounts.new_account(name)
    user = accounts.new_owner(account.id, "usr", admin, admin=True)
    key, token = _key(Caller(account.id, user.id, admin=True), "The account's first key")
    table.create(account, user, key)
    return account, user, token


def add_owner(account_id: str, prefix: str, name: str, *, admin: bool) -> Item:
    """A user ("usr") or bot ("bot") in an account. Raises Unknown."""
    _check_account(account_id)
    owner = accounts.new_owner(account_id, prefix, name, admin=admin)
    table.create(owner)
    return owner


def issue_key(account_id: str, owner_id: str, description: str) -> tuple[Item, str]:
    """An API key for a user or bot, and its token. Raises Unknown."""
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


def _check_account(id: str) -> None:
    if table.read(accounts.ACCOUNTS, id) is None:
        raise Unknown(f"There is no account {id}.")


def _key(caller: Caller, description: str) -> tuple[Item, str]:
    id = ids.new(API_KEYS.prefix)
    new = API_KEYS.make(caller, id, Create(description=description))
    return API_KEYS.stored(caller, id, new, scope=caller.scope(API_KEYS.path)), new.once["token"]
