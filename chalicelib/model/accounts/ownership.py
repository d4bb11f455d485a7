"""The API keys and SSH credentials that a user or bot owns."""

from collections.abc import Iterator, Sequence

from chalicelib.model.accounts import api_keys
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import Kind
from chalicelib.storage.records import items, table
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import UniqueKey


def list_keys_and_credentials(account: str, owner: str) -> list[Item]:
    """Return the API keys and SSH credentials of a user or bot, including malformed ones. Raises aws.Unavailable."""
    return [item for kind in (kinds.API_KEYS, kinds.SSH_CREDENTIALS) for item in _list_owned(account, kind, owner)]


def list_credentials(account: str, owner: str) -> list[Item]:
    """Return the SSH credentials of a user or bot, including malformed ones. Raises aws.Unavailable."""
    return list(_list_owned(account, kinds.SSH_CREDENTIALS, owner))


def list_unique_keys(account: str, owner: str) -> list[UniqueKey]:
    """Return the unique keys of a user's or bot's API keys, SSH credentials and federated credentials.

    Raises aws.Unavailable.
    """
    federated = _list_owned(account, kinds.FEDERATED_CREDENTIALS, owner)
    return unique_keys_of([*list_keys_and_credentials(account, owner), *federated])


def unique_keys_of(credentials: Sequence[Item]) -> list[UniqueKey]:
    """Return the unique keys of API keys, SSH credentials and federated credentials."""
    unnamed = [api_keys.key_of(item.id) for item in credentials if not item.unique_keys and kinds.API_KEYS.has(item.id)]
    return [*unnamed, *(key for item in credentials for key in item.unique_keys)]


def owner_of(item: Item) -> str:
    """Return the id of the owner of an API key or SSH credential.

    If the record is malformed, the id is read from the item's unique keys, which have a copy of the id. Returns "" if
    the unique keys do not have the id either.
    """
    owner = item.body.get("owner_id")
    if isinstance(owner, str):
        return owner
    keys = item.unique_keys or ([api_keys.key_of(item.id)] if kinds.API_KEYS.has(item.id) else [])
    key_attributes = (table.look_up(key.kind, key.value) or {} for key in keys)
    return next((str(attributes["owner_id"]) for attributes in key_attributes if "owner_id" in attributes), "")


def _list_owned(account: str, kind: Kind, owner: str) -> Iterator[Item]:
    for item in table.read_all(items.scope(account, kind.path)):
        if item.is_live and (item.body or item.malformed) and owner_of(item) == owner:
            yield item
