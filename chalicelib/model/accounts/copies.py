"""Copies of the fields of owners and accounts in unique keys.

The unique key of an API key or credential is the record that authentication reads. It contains the copies, so that
authentication requires only this read.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from chalicelib.model.accounts import accounts, api_keys, federated_credentials, key_rules
from chalicelib.model.accounts.accounts import User
from chalicelib.model.base import records, switches
from chalicelib.storage.client import dynamodb
from chalicelib.storage.records import decoding, items
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import UniqueKey


def read_owner_and_account(account: str, id: str) -> tuple[Item, Item]:
    """Return the records of a user or bot and its account. A record that does not exist is an item with an empty body.
    Raises aws.Unavailable.
    """
    item_keys = (items.scope(account, accounts.OWNERS[id.partition("_")[0]].path), id), (accounts.SCOPE, account)
    owner, record_of_account = (
        _decode_live(record) or Item(*item_key, {}, revision=0)
        for item_key, record in zip(item_keys, dynamodb.get_each(*item_keys), strict=True)
    )
    return owner, record_of_account


def fields_of(key: UniqueKey, pair: Sequence[Item]) -> dict[str, Any]:
    """Return the fields that a unique key must copy from `pair`: the records of the owner and its account."""
    name = next((stored.name for _, stored in records.decode_each(User, pair[:1])), "")
    return {"active": are_active(pair), "name": name, **rules_of(key.kind, pair[1])}


def rules_of(kind: str, account: Item) -> dict[str, Any]:
    """Return the rules of an account that must be copied into its unique keys of a kind.

    Only the unique keys of API keys and of federated credentials copy rules, and they copy different ones. If the
    account's rules are malformed, no rules are returned, so that existing copies stay unchanged.
    """
    copied = {api_keys.KIND: key_rules.list_copied_fields, federated_credentials.KIND: key_rules.list_exchange_fields}
    try:
        return copied[kind](key_rules.decode_rules(account)) if account.body and kind in copied else {}
    except MalformedRecord as malformed:  # an API key must be switched off even if the account's rules are malformed
        decoding.report(account.scope, account.id, malformed)
        return {}


def differs(attributes: Mapping[str, Any], fields: Mapping[str, Any]) -> bool:
    """Return whether a unique key's attributes differ from these fields.

    A missing attribute equals None, False and "".
    """
    return any((attributes.get(name) or None) != (value or None) for name, value in fields.items())


def are_active(pair: Sequence[Item]) -> bool:
    """Return whether an owner and its account exist and are switched on."""
    return all((item.body or item.malformed) and switches.is_on(item) for item in pair)


def _decode_live(record: Mapping[str, Any] | None) -> Item | None:
    item = Item.from_record(record) if record else None
    return item if item and item.is_live and (item.body or item.malformed) else None
