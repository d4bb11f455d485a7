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


def stored(scope: str = SCOPE, expires: int | None = None, **body: object) -> Item:
    made = item(scope, expires, **body)
    records.create(made)
    return made


def sealed(made: Item) -> Item:
    return replace(made, sealed={"private_key": vault.seal(b"\x00\xff" * 16, vault.context("acct_1", made.id))})


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
    made = sealed(item(**body))
    records.create(made)
    assert table.read(SCOPE, made.id) == made


def test_numbers_come_back_as_integers() -> None:
    made = stored(weights={"a": 0, "b": 10_000}, negative=-1)
    found = table.read(SCOPE, made.id)
    assert found
    assert found.body == made.body
    assert {type(weight) for weight in found.body["weights"].values()} == {int}


def test_what_is_not_there_is_none() -> None:
    made = stored()
    assert table.read(SCOPE, ids.new("x")) is None
    assert table.read("acct_2#/things", made.id) is None
    assert table.read("acct_1#/other", made.id) is None


def test_every_read_of_the_table_sees_what_was_written_before() -> None:
    made = stored()
    with queries.calls() as made_calls, queries.stale() as seen:
        assert table.read(SCOPE, made.id) == made
        assert table.page(SCOPE, before=None, count=1) == ([made], False)
        assert [record and record["id"] for record in dynamodb.get_each((SCOPE, made.id))] == [made.id]
        assert len([*scan()]) == 1
    assert (made_calls, seen) == (["GetItem", "Query", "BatchGetItem", "Scan"], [])


def test_several_items_are_created_together_and_again_without_harm() -> None:
    items = (item(), item("acct_1#/others"), item())
    for _ in range(2):
        records.create(*items)
        assert [table.read(each.scope, each.id) for each in items] == [*items]
        assert len(table.newest(SCOPE)) == 2


def test_a_change_sets_the_fields_it_names_and_leaves_the_others() -> None:
    made = stored(description="d", metadata="m", number=1)
    changed = with_fields(SCOPE, made.id, {"description": "", "number": 2})
    assert changed == replace(made, body={"description": "", "metadata": "m", "number": 2}, revision=2)
    assert table.read(SCOPE, made.id) == changed


def test_a_change_may_name_fields_that_dynamodb_reserves() -> None:
    made = replace(item(), body={"name": "a", "status": "b", "scope": "c", "expires": "d", "id": "e"})
    records.create(made)
    fields = {"status": "x", "scope": "y", "expires": "z", "id": "w"}
    assert with_fields(SCOPE, made.id, fields) == replace(made, body={"name": "a", **fields}, revision=2)


def test_a_change_of_what_is_not_there_makes_nothing() -> None:
    absent = ids.new("x")
    assert with_fields(SCOPE, absent, {"name": "it"}) is None
    assert table.read(SCOPE, absent) is None


def test_a_deletion_is_told_from_a_deletion_of_nothing() -> None:
    made = stored()
    assert records.delete(SCOPE, ids.new("x")) is False
    assert records.delete("acct_2#/things", made.id) is False
    assert records.delete(SCOPE, made.id) is True
    assert table.read(SCOPE, made.id) is None
    assert records.delete(SCOPE, made.id) is False


def test_a_list_is_of_one_scope_and_newest_first() -> None:
    made = [stored(number=number) for number in range(4)]
    stored("acct_1#/thingsandmore")
    stored("acct_2#/things")
    assert table.newest(SCOPE) == made[::-1]
    assert table.newest("acct_3#/things") == []


def test_a_page_tells_whether_there_are_more() -> None:
    made = [stored(number=number) for number in range(4)]
    stored("acct_2#/things")
    assert table.page(SCOPE, before=None, count=2) == ([made[3], made[2]], True)
    assert table.page(SCOPE, before=made[2].id, count=1) == ([made[1]], True)
    assert table.page(SCOPE, before=made[2].id, count=2) == ([made[1], made[0]], False)
    assert table.page(SCOPE, before=None, count=100) == (made[::-1], False)
    assert table.page(SCOPE, before=made[0].id, count=1) == ([], False)


def test_a_list_leaves_out_what_is_sealed() -> None:
    made = sealed(item())
    records.create(made)
    assert table.newest(SCOPE) == [replace(made, sealed={})]
    assert table.page(SCOPE, before=None, count=1) == ([replace(made, sealed={})], False)


def test_a_list_goes_on_over_the_pages_of_dynamodb() -> None:
    made = [stored(filling="x" * 300_000, number=number) for number in range(8)]  # DynamoDB's pages end at 1 MB
    assert table.newest(SCOPE) == made[::-1]


def test_pages_of_large_items_are_short_but_miss_and_repeat_nothing() -> None:
    made = [stored(filling="x" * 300_000, number=number) for number in range(8)]
    found, more = table.page(SCOPE, before=None, count=100)
    while more:
        following, more = table.page(SCOPE, before=found[-1].id, count=100)
        assert 1 <= len(following) <= 4
        found += following
    assert found == made[::-1]


def test_pages_of_shards_with_large_items_are_short_but_miss_and_repeat_nothing() -> None:
    account = ids.new("acct")
    scope = f"{account}#/ssh_user_certificates"
    direct_writes.spread(scope)
    made = [stored(scope, text="x" * 100_000).id for _ in range(20)]
    found, before = list[str](), None
    for _ in range(4):
        page, has_more = table.page(scope, before=before, count=100)
        assert len(page) < 10
        found += [item.id for item in page]
        if not has_more:
            break
        before = found[-1]
    assert found == sorted(made, reverse=True)


def test_what_has_expired_is_not_there() -> None:
    gone = stored(expires=in_seconds(0))
    assert table.read(SCOPE, gone.id) is None
    assert with_fields(SCOPE, gone.id, {"name": "new"}) is None
    assert direct_writes.renew(SCOPE, gone.id, lease=in_seconds(60)) is False
    assert records.delete(SCOPE, gone.id) is False
    assert table.newest(SCOPE) == []


def test_what_expires_later_is_there() -> None:
    made = stored(expires=in_seconds(60))
    assert table.read(SCOPE, made.id) == made
    assert table.newest(SCOPE) == [made]
    assert with_fields(SCOPE, made.id, {"name": "new"}) == replace(made, body={"name": "new"}, revision=2)
    assert records.delete(SCOPE, made.id) is True


def test_what_is_renewed_expires_later() -> None:
    made, later = stored(expires=in_seconds(60)), in_seconds(600)
    assert direct_writes.renew(SCOPE, made.id, lease=later) is True
    assert table.read(SCOPE, made.id) == replace(made, expires=None, lease=later)
    assert direct_writes.renew(SCOPE, ids.new("x"), lease=later) is False


@pytest.mark.parametrize("count", [1, 2, 3])
def test_what_has_expired_does_not_count_in_a_list(count: int) -> None:
    live = []
    for _ in range(4):
        live.append(stored())
        for _ in range(3):
            stored(expires=in_seconds(0))
    assert table.page(SCOPE, before=None, count=count) == (live[::-1][:count], True)
    assert table.page(SCOPE, before=live[2].id, count=count) == (live[1::-1][:count], count < 2)
