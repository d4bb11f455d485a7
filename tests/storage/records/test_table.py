"""The table: items under scopes and ids, alone and in lists, and what expires."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from chalicelib import ids
from chalicelib.storage import vault
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.queries import scan
from chalicelib.storage.records import direct_writes, table
from chalicelib.storage.records.items import Item
from tests import queries, records

SCOPE = "acct_1#/things"


def item(scope: str = SCOPE, expires: int | None = None, **body: object) -> Item:
    return Item(scope, ids.new("x"), dict(body) or {"name": "it"}, expires=expires)


def create_item(scope: str = SCOPE, expires: int | None = None, **body: object) -> Item:
    new_item = item(scope, expires, **body)
    records.create(new_item)
    return new_item


def seal(new_item: Item) -> Item:
    return replace(new_item, sealed={"private_key": vault.seal(b"\x00\xff" * 16, vault.context("acct_1", new_item.id))})


def with_fields(scope: str, id: str, fields: Mapping[str, object]) -> Item | None:
    return records.rewrite(scope, id, lambda item: replace(item, body={**item.body, **fields}))


def in_seconds(seconds: int) -> int:
    return int(time.time()) + seconds


def test_what_is_created_is_read_whole() -> None:
    body: dict[str, Any] = {
        "text": "ä",
        "number": 2**53,
        "list": ["a", {}],
        "map": {"no": None, "yes": True},
        "nothing": None,
    }
    new_item = seal(item(**body))
    records.create(new_item)
    assert table.read(SCOPE, new_item.id) == new_item


def test_numbers_come_back_as_integers() -> None:
    stored_item = create_item(weights={"a": 0, "b": 10_000}, negative=-1)
    read_item = table.read(SCOPE, stored_item.id)
    assert read_item
    assert read_item.body == stored_item.body
    assert {type(weight) for weight in read_item.body["weights"].values()} == {int}


def test_what_is_not_there_is_none() -> None:
    stored_item = create_item()
    assert table.read(SCOPE, ids.new("x")) is None
    assert table.read("acct_2#/things", stored_item.id) is None
    assert table.read("acct_1#/other", stored_item.id) is None


def test_every_read_of_the_table_sees_what_was_written_before() -> None:
    stored_item = create_item()
    with queries.calls() as made_calls, queries.stale() as stale_reads:
        assert table.read(SCOPE, stored_item.id) == stored_item
        assert table.read_page(SCOPE, before=None, count=1) == ([stored_item], False)
        assert [record and record["id"] for record in dynamodb.get_each((SCOPE, stored_item.id))] == [stored_item.id]
        assert len([*scan()]) == 1
    assert (made_calls, stale_reads) == (["GetItem", "Query", "BatchGetItem", "Scan"], [])


def test_several_items_are_created_together_and_again_without_harm() -> None:
    items = (item(), item("acct_1#/others"), item())
    for _ in range(2):
        records.create(*items)
        assert [table.read(item.scope, item.id) for item in items] == [*items]
        assert len(table.list_newest(SCOPE)) == 2


def test_a_change_sets_the_fields_it_names_and_leaves_the_others() -> None:
    stored_item = create_item(description="d", metadata="m", number=1)
    changed_item = with_fields(SCOPE, stored_item.id, {"description": "", "number": 2})
    assert changed_item == replace(stored_item, body={"description": "", "metadata": "m", "number": 2}, revision=2)
    assert table.read(SCOPE, stored_item.id) == changed_item


def test_a_change_may_name_fields_that_dynamodb_reserves() -> None:
    new_item = replace(item(), body={"name": "a", "status": "b", "scope": "c", "expires": "d", "id": "e"})
    records.create(new_item)
    fields = {"status": "x", "scope": "y", "expires": "z", "id": "w"}
    assert with_fields(SCOPE, new_item.id, fields) == replace(new_item, body={"name": "a", **fields}, revision=2)


def test_a_change_of_what_is_not_there_makes_nothing() -> None:
    absent = ids.new("x")
    assert with_fields(SCOPE, absent, {"name": "it"}) is None
    assert table.read(SCOPE, absent) is None


def test_a_deletion_is_told_from_a_deletion_of_nothing() -> None:
    stored_item = create_item()
    assert records.delete(SCOPE, ids.new("x")) is False
    assert records.delete("acct_2#/things", stored_item.id) is False
    assert records.delete(SCOPE, stored_item.id) is True
    assert table.read(SCOPE, stored_item.id) is None
    assert records.delete(SCOPE, stored_item.id) is False


def test_a_list_is_of_one_scope_and_newest_first() -> None:
    stored_items = [create_item(number=number) for number in range(4)]
    create_item("acct_1#/thingsandmore")
    create_item("acct_2#/things")
    assert table.list_newest(SCOPE) == stored_items[::-1]
    assert table.list_newest("acct_3#/things") == []


def test_a_page_tells_whether_there_are_more() -> None:
    stored_items = [create_item(number=number) for number in range(4)]
    create_item("acct_2#/things")
    assert table.read_page(SCOPE, before=None, count=2) == ([stored_items[3], stored_items[2]], True)
    assert table.read_page(SCOPE, before=stored_items[2].id, count=1) == ([stored_items[1]], True)
    assert table.read_page(SCOPE, before=stored_items[2].id, count=2) == ([stored_items[1], stored_items[0]], False)
    assert table.read_page(SCOPE, before=None, count=100) == (stored_items[::-1], False)
    assert table.read_page(SCOPE, before=stored_items[0].id, count=1) == ([], False)


def test_a_list_leaves_out_what_is_sealed() -> None:
    new_item = seal(item())
    records.create(new_item)
    assert table.list_newest(SCOPE) == [replace(new_item, sealed={})]
    assert table.read_page(SCOPE, before=None, count=1) == ([replace(new_item, sealed={})], False)


def test_a_list_goes_on_over_the_pages_of_dynamodb() -> None:
    stored_items = [
        create_item(filling="x" * 300_000, number=number) for number in range(8)
    ]  # DynamoDB's pages end at 1 MB
    assert table.list_newest(SCOPE) == stored_items[::-1]


def test_pages_of_large_items_are_short_but_miss_and_repeat_nothing() -> None:
    stored_items = [create_item(filling="x" * 300_000, number=number) for number in range(8)]
    listed_items, more = table.read_page(SCOPE, before=None, count=100)
    while more:
        next_items, more = table.read_page(SCOPE, before=listed_items[-1].id, count=100)
        assert 1 <= len(next_items) <= 4
        listed_items += next_items
    assert listed_items == stored_items[::-1]


def test_pages_of_shards_with_large_items_are_short_but_miss_and_repeat_nothing() -> None:
    account = ids.new("acct")
    scope = f"{account}#/ssh_user_certificates"
    direct_writes.spread(scope)
    stored_ids = [create_item(scope, text="x" * 100_000).id for _ in range(20)]
    listed_ids, before = list[str](), None
    for _ in range(4):
        page, has_more = table.read_page(scope, before=before, count=100)
        assert len(page) < 10
        listed_ids += [item.id for item in page]
        if not has_more:
            break
        before = listed_ids[-1]
    assert listed_ids == sorted(stored_ids, reverse=True)


def test_what_has_expired_is_not_there() -> None:
    expired_item = create_item(expires=in_seconds(0))
    assert table.read(SCOPE, expired_item.id) is None
    assert with_fields(SCOPE, expired_item.id, {"name": "new"}) is None
    assert direct_writes.renew(SCOPE, expired_item.id, lease=in_seconds(60)) is False
    assert records.delete(SCOPE, expired_item.id) is False
    assert table.list_newest(SCOPE) == []


def test_what_expires_later_is_there() -> None:
    stored_item = create_item(expires=in_seconds(60))
    assert table.read(SCOPE, stored_item.id) == stored_item
    assert table.list_newest(SCOPE) == [stored_item]
    assert with_fields(SCOPE, stored_item.id, {"name": "new"}) == replace(stored_item, body={"name": "new"}, revision=2)
    assert records.delete(SCOPE, stored_item.id) is True


def test_what_is_renewed_expires_later() -> None:
    stored_item, later = create_item(expires=in_seconds(60)), in_seconds(600)
    assert direct_writes.renew(SCOPE, stored_item.id, lease=later) is True
    assert table.read(SCOPE, stored_item.id) == replace(stored_item, expires=None, lease=later)
    assert direct_writes.renew(SCOPE, ids.new("x"), lease=later) is False


@pytest.mark.parametrize("count", [1, 2, 3])
def test_what_has_expired_does_not_count_in_a_list(count: int) -> None:
    live = []
    for _ in range(4):
        live.append(create_item())
        for _ in range(3):
            create_item(expires=in_seconds(0))
    assert table.read_page(SCOPE, before=None, count=count) == (live[::-1][:count], True)
    assert table.read_page(SCOPE, before=live[2].id, count=count) == (live[1::-1][:count], count < 2)
