"""Reads of audit events: by account, by resource and by actor, from all partitions.

A page merges one page of each partition: of the account's shards, and of the edge. The edge can write anything to its
partition, so items without the form of an event are skipped.
"""

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import asdict, replace

from chalicelib import clock, ids
from chalicelib.model.audit import partitions, trail
from chalicelib.model.base import kinds
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Condition
from chalicelib.storage.records import table
from chalicelib.storage.records.item_keys import merge_pages
from chalicelib.storage.records.items import Item

Page = tuple[list[Item], bool]  # the events of a page, newest first, and whether there are more events

_SKEW = 60  # seconds by which the clocks of two processes may differ
_READ = 500  # the items to request after a query without an event, so that few queries pass over many other items
_END = f"{kinds.AUDIT_EVENTS.prefix}_~"  # an id that sorts after the ids of all events
_KEYS = 100  # the most API keys in a page of `read_page_of_keys`
_MAX_KEYS = 20  # for an owner with more API keys, the newest events of the account are filtered by owner instead


def read(account: str, id: str) -> Item | None:
    """Return an event of an account, or None. One read. Raises aws.Unavailable."""
    scopes = (*partitions.list_possible(account, id), _edge(account))
    read = (Item.from_record(record) for record in dynamodb.get_each(*((scope, id) for scope in scopes)) if record)
    live_items = [item for item in read if item.is_live]
    for item in live_items:
        if item.malformed and not trail.is_of_the_edge(item):
            raise item.malformed
    return next(_select_trusted(live_items), None)


def read_page(account: str, *, before: str | None, count: int) -> Page:
    """Return at most `count` events of an account, newest first, and whether there are more.

    Raises aws.Unavailable.
    """
    first, has_more, marks = table.read_marked_page(partitions.find_first(account), before=before, count=count)
    marks = partitions.marks(account) if before else marks
    pages = [(first, has_more)]
    if partitions.MARK in marks:
        pages += [table.read_page(scope, before=before, count=count) for scope in partitions.scopes(account)[1:]]
    if partitions.WITHOUT_EDGE not in marks:
        pages.append(_read_edge_page(account, before, count))
    return merge_pages(pages, count)


def read_page_of_resource(account: str, id: str, *, before: str | None, count: int) -> Page:
    """Return at most `count` events of a resource, as `read_page` does. Events of the last second can be missing."""
    return _read_indexed_page(trail.BY_RESOURCE, account, id, before, count)


def read_page_of_actor(account: str, id: str, *, before: str | None, count: int) -> Page | None:
    """Return at most `count` events of a key or federated credential, or of all keys of a user or bot.

    Returns None for a user or bot with more than _MAX_KEYS keys: then the caller must filter the events of the account.
    Raises aws.Unavailable.
    """
    keys = [id] if _is_actor(id) else _keys(account, id)
    if len(keys) > _MAX_KEYS:
        return None
    is_busy = bool(keys) and partitions.is_busy(account)
    spread = range(len(partitions.scopes(account)) if is_busy else 1)
    named = (trail.build_actor_key(key, shard) for key in keys for shard in spread)
    return merge_pages([_read_indexed_page(trail.BY_ACTOR, account, name, before, count) for name in named], count)


def read_operator_events() -> list[Item]:
    """Return the events about the service, which belong to no account, newest first. Raises aws.Unavailable."""
    return table.list_newest(trail.OF_THE_OPERATOR)


def read_between(account: str, after: str, before: str) -> Iterator[Item]:
    """Yield all events of an account between two ids, exclusive, oldest first. Raises aws.Unavailable."""
    scopes = [_edge(account), *partitions.scopes(account)]
    events = heapq.merge(*(table.read_between(scope, after, before) for scope in scopes), key=_id)
    yield from _select_trusted(event for event in events if event.id not in (after, before))


def list_keys_of(account: str, owner: str) -> list[str]:
    """Return the ids of all present and former API keys of an owner, newest first. Raises aws.Unavailable."""
    return [f"{kinds.API_KEYS.prefix}_{entry.id}" for entry in table.list_newest(trail.keys_scope(account, owner))]


def read_page_of_keys(account: str, owner: str, *, before: str | None) -> tuple[list[str], bool]:
    """Return a page of ids of an owner's API keys, newest first, and whether there are more.

    Removed keys are included. All keys in the page are older than the key `before`. Raises aws.Unavailable.
    """
    last = ids.strip_prefix(before) if before else None
    entries, has_more = table.read_page(trail.keys_scope(account, owner), before=last, count=_KEYS)
    return [f"{kinds.API_KEYS.prefix}_{entry.id}" for entry in entries], has_more


def read_actions_of(
    account: str, actor: str, actions: Collection[str], *, since: int = 0, is_busy: bool
) -> Iterator[Item]:
    """Yield the events of an API key or federated credential that have one of some actions.

    The events begin at the creation of the key or credential, or at the Unix second `since` if that is later. Makes one
    query, or in a busy account one for each shard. Events of the last second can be missing. Raises aws.Unavailable.
    """
    first = max(since, int(ids.created_at(actor).timestamp()) - _SKEW)
    scopes, after = partitions.scopes(account), ids.first_at(kinds.AUDIT_EVENTS.prefix, first)
    for shard in range(len(scopes) if is_busy else 1):
        value = f"{account}#{trail.build_actor_key(actor, shard)}"
        events = table.select_indexed(trail.BY_ACTOR, value, after=after, only=_actions(actions))
        yield from (event for event in events if event.scope in scopes)


def read_latest(account: str, seconds: int, actions: Collection[str], *, is_busy: bool) -> Iterator[Item]:
    """Yield the events with some actions that the API wrote in the last seconds, without gaps. Makes one query, or in a
    busy account one for each shard. Raises aws.Unavailable.
    """
    after = ids.first_at(kinds.AUDIT_EVENTS.prefix, clock.seconds() - seconds)
    for scope in partitions.scopes(account)[: None if is_busy else 1]:
        yield from (event for event in table.read_between(scope, after, _END) if event.body.get("action") in actions)


def _actions(actions: Collection[str]) -> Condition:
    """Return the condition that an event has one of some actions."""
    values = {f"action{index}": action for index, action in enumerate(sorted(actions))}
    return Condition(f"#body.#action IN ({', '.join(f':{name}' for name in values)})", values)


def _is_actor(id: str) -> bool:
    return kinds.API_KEYS.has(id) or kinds.FEDERATED_CREDENTIALS.has(id)


def _keys(account: str, owner: str) -> list[str]:
    """Return ids of an owner's present and former API keys, newest first: at most one more than _MAX_KEYS."""
    entries, _ = table.read_page(trail.keys_scope(account, owner), before=None, count=_MAX_KEYS + 1)
    return [f"{kinds.API_KEYS.prefix}_{item.id}" for item in entries]


def _read_edge_page(account: str, before: str | None, count: int) -> Page:
    scope = _edge(account)
    return _read_trusted_page(
        lambda last, limit: table.read_page(scope, before=last, count=limit), {scope}, before, count
    )


def _read_indexed_page(index: str, account: str, name: str, before: str | None, count: int) -> Page:
    scopes = {_edge(account), *partitions.scopes(account)}
    value = f"{account}#{name}"
    return _read_trusted_page(
        lambda last, limit: table.read_indexed_page(index, value, before=last, count=limit), scopes, before, count
    )


def _read_trusted_page(
    read: Callable[[str | None, int], Page], scopes: AbstractSet[str], before: str | None, count: int
) -> Page:
    """Return a page of the events that `read` finds in an index.

    The edge could write an item that names another account, and the index would find the item for that account. So only
    items from the account's partitions `scopes` are returned.
    """
    limit = count
    while True:
        page_items, has_more = read(before, limit)
        events = [*_select_trusted(item for item in page_items if item.scope in scopes)]
        if events or not has_more:
            return events[:count], has_more or len(events) > count
        before, limit = page_items[-1].id, _READ


def _id(event: Item) -> str:
    return event.id


def _edge(account: str) -> str:
    return f"{account}#{trail.OF_THE_EDGE}"


def _select_trusted(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the events among items. In events from the edge, replace the values that the edge must not choose."""
    for item in items:
        if not trail.is_of_the_edge(item):
            yield item
        elif trail.is_event(item):
            yield _restrict(item)


def _restrict(event: Item) -> Item:
    """Return an event from the edge's partition with trusted values for actor, time and path.

    The time is read from the event's id, because a forged time could end a list early. The path starts with a slash, so
    that it can only point into this API.
    """
    known = {
        "created_at": ids.time_of(event.id),
        "resource_path": path if (path := event.body["resource_path"]).startswith("/") else "",
        "actor": asdict(trail.EDGE.actor),
        "operation_id": "",
        "source_ip": "",
    }
    return replace(event, body={**event.body, **known})
