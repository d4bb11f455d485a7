"""Reading audit events: of an account, of a resource and of an actor, from all partitions that they lie in.

A page merges one page of each partition: of what everybody else did, and of what the edge did. A quiet account has one
of either. In the edge's there may be anything: what has not the form of an event is passed over.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import asdict, replace

from chalicelib import clock, ids
from chalicelib.model import audit, kinds, shards
from chalicelib.storage import dynamodb, table
from chalicelib.storage.items import Item
from chalicelib.storage.shards import merge_pages

Page = tuple[list[Item], bool]  # the newest events first, and whether there are more

_READ = 500  # items at once where what was read first held no event
_MAX_KEYS = 20  # of an owner, whose events are looked up key by key; of more they are picked from the newest


def read(account: str, id: str) -> Item | None:
    """Return an event of an account, or None. One read. Raises aws.Unavailable."""
    scopes = (shards.scope(account, 0), shards.scope(account, shards.of(id)), _edge(account))
    read = (Item.from_record(record) for record in dynamodb.get_each(*((scope, id) for scope in scopes)) if record)
    found = [item for item in read if item.is_live]
    for item in found:
        if item.malformed and not audit.is_of_the_edge(item):
            raise item.malformed
    return next(_trusted(found), None)


def page(account: str, *, before: str | None, count: int) -> Page:
    """Return at most `count` events of an account, newest first, and whether there are more.

    Raises aws.Unavailable.
    """
    first, has_more, marks = table.marked_page(shards.scope(account, 0), before=before, count=count)
    marks = shards.marks(account) if before else marks
    pages = [(first, has_more)]
    if shards.MARK in marks:
        pages += [table.page(scope, before=before, count=count) for scope in shards.scopes(account)[1:]]
    if shards.WITHOUT_EDGE not in marks:
        pages.append(_of_the_edge(account, before, count))
    return merge_pages(pages, count)


def page_of_resource(account: str, id: str, *, before: str | None, count: int) -> Page:
    """Return at most `count` events of a resource, as `page` does; what is a second old may not be among them."""
    return _indexed(audit.BY_RESOURCE, account, id, before, count)


def page_of_actor(account: str, id: str, *, before: str | None, count: int) -> Page | None:
    """Return at most `count` events of an API key, or of all keys of a user or bot, as `page_of_resource` does.

    None where they must be picked from those of all actors. Raises aws.Unavailable.
    """
    keys = [id] if kinds.API_KEYS.has(id) else _keys(account, id)
    if len(keys) > _MAX_KEYS:
        return None
    spread = range(shards.COUNT) if keys and shards.is_busy(account) else range(1)
    named = (audit.acting(key, shard) for key in keys for shard in spread)
    return merge_pages([_indexed(audit.BY_ACTOR, account, name, before, count) for name in named], count)


def of_operator() -> list[Item]:
    """Return the events of what no account has, newest first. Raises aws.Unavailable."""
    return table.newest(audit.OF_THE_OPERATOR)


def between(account: str, after: str, before: str) -> Iterator[Item]:
    """Yield all events of an account between two ids, which are left out, the oldest first. Raises aws.Unavailable."""
    scopes = [_edge(account), *shards.scopes(account)]
    found = heapq.merge(*(table.between(scope, after, before) for scope in scopes), key=_id)
    yield from _trusted(event for event in found if event.id not in (after, before))


def _keys(account: str, owner: str) -> list[str]:
    """Return the ids of the API keys that a user or bot has, or had; a few of very many."""
    found, _ = table.page(audit.keys_scope(account, owner), before=None, count=_MAX_KEYS + 1)
    return [f"{kinds.API_KEYS.prefix}_{item.id}" for item in found]


def _of_the_edge(account: str, before: str | None, count: int) -> Page:
    scope = _edge(account)
    return _sound(lambda place, most: table.page(scope, before=place, count=most), {scope}, before, count)


def _indexed(index: str, account: str, name: str, before: str | None, count: int) -> Page:
    own = {_edge(account), *shards.scopes(account)}
    value = f"{account}#{name}"
    return _sound(lambda place, most: table.indexed(index, value, before=place, count=most), own, before, count)


def _sound(read: Callable[[str | None, int], Page], own: AbstractSet[str], before: str | None, count: int) -> Page:
    """Return a page of events, given how items are read; of other scopes than `own` the index key is forged."""
    most = count
    while True:
        found, has_more = read(before, most)
        events = [*_trusted(item for item in found if item.scope in own)]
        if events or not has_more:
            return events[:count], has_more or len(events) > count
        before, most = found[-1].id, _READ


def _id(event: Item) -> str:
    return event.id


def _edge(account: str) -> str:
    return f"{account}#{audit.OF_THE_EDGE}"


def _trusted(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the events among some items, those of the edge as it may speak."""
    for item in items:
        if not audit.is_of_the_edge(item):
            yield item
        elif audit.is_event(item):
            yield _spoken(item)


def _spoken(event: Item) -> Item:
    """Return an event that the edge could have written; it names nobody else as its actor.

    Its time is that of its id, or it would end a list that asks for what came after a time. It leads nowhere but into
    the API, whose address its path is put behind.
    """
    known = {
        "created_at": clock.rfc3339(ids.created_at(event.id)),
        "resource_path": path if (path := event.body["resource_path"]).startswith("/") else "",
        "actor": asdict(audit.EDGE.actor),
        "operation_id": "",
        "source_ip": "",
    }
    return replace(event, body={**event.body, **known})
