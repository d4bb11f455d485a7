"""Audit events: the pages of a list, and events that tests store."""

from typing import Any

from chalicelib import ids
from chalicelib.model.audit import partitions, trail
from chalicelib.model.audit.trail import EventActor, Trail
from chalicelib.model.base import kinds
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records.items import Item
from tests import records
from tests.transports import Client

PATH = "/audit_events"


def page(client: Client, query: str = "") -> list[Any]:
    """Return all events that a query finds, by its next_page_uri, the newest first."""
    events, uri = [], f"{PATH}?{query}"
    while uri:
        answer = client.get(uri)
        assert answer.status == 200, answer.text
        events += answer.json["audit_events"]
        uri = (answer.json["next_page_uri"] or "").removeprefix("http://localhost")
    return events


def put(account: str, key: str, shard: int = 0) -> Item:
    """Put an event of a key as the product does, into a shard, and return it."""
    by_key, item = (
        Trail(EventActor("api_key", key, "usr_x", "ada")),
        Item(f"{account}#/backends/weighted", ids.new("bkdwd"), {}),
    )
    event = trail.event(by_key, kinds.identify(item.id), item, "create", "", (), {})
    placed = Item(
        partitions.scopes(account)[shard],
        event.id,
        event.body,
        expires=event.expires,
        indexed=event.indexed,
        acted=f"{account}#{trail.build_actor_key(key, shard)}",
    )
    records.create(placed)
    return placed


def mark(account: str) -> None:
    dynamodb.do(Write.put({"scope": partitions.find_first(account), "id": partitions.MARK}))
