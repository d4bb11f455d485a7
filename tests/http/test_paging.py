"""Lists, for every kind of resource (SPEC 2.1): newest first, in pages that lead to one another and are never empty."""

import json
from typing import Any

from chalicelib import ids
from chalicelib.http import paging
from chalicelib.http.paging import Page
from chalicelib.http.resource import EditableResource
from chalicelib.schema import sizes
from tests.samples import Collection, each_kind

BASE = "http://localhost"


def create_entries(collection: Collection, count: int) -> list[Any]:
    """Return all resources of the kind, newest first, after creating so many; an account starts with one API key."""
    before = collection.entries()
    return [collection.create() for _ in range(count)][::-1] + before


def page(collection: Collection, uri: str) -> list[Any]:
    return list(collection.client.get(uri.removeprefix(BASE)).json[collection.kind.array])


def expected_page(collection: Collection, entries: list[Any], next_uri: str | None) -> dict[str, Any]:
    return {collection.kind.array: entries, "uri": f"{BASE}{collection.path}", "next_page_uri": next_uri}


@each_kind
def test_pages_show_every_entry_once_and_the_last_is_never_empty(collection: Collection) -> None:
    entries = create_entries(collection, 3)
    answer = collection.client.get(collection.path)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json == expected_page(collection, entries, None)
    for limit in (1, 2, 3):
        uri: str | None = f"{collection.path}?limit={limit}"
        for start in range(0, len(entries), limit):
            page, remaining = entries[start : start + limit], entries[start + limit :]
            next_uri = f"{BASE}{collection.path}?before_id={page[-1]['id']}&limit={limit}" if remaining else None
            assert collection.client.get((uri or "").removeprefix(BASE)).json == expected_page(
                collection, page, next_uri
            )
            uri = next_uri


@each_kind
def test_a_page_goes_on_behind_its_last_entry_whatever_is_created_or_deleted(collection: Collection) -> None:
    entries = create_entries(collection, 3)
    next_uri = collection.client.get(f"{collection.path}?limit=2").json["next_page_uri"]
    newest = collection.create()
    assert page(collection, next_uri) == entries[2:4]
    if isinstance(collection.resource, EditableResource):
        assert collection.client.delete(f"{collection.path}/{entries[1]['id']}").status == 204
        del entries[1]
        assert page(collection, next_uri) == entries[1:3]
    assert page(collection, f"{collection.path}?before_id={ids.new(collection.kind.prefix)}") == [newest, *entries]
    behind_all = collection.client.get(f"{collection.path}?before_id={collection.kind.prefix}_{'0' * 27}")
    assert behind_all.json == expected_page(collection, [], None)


def test_an_answer_is_cut_before_it_is_too_large_and_leads_to_the_rest() -> None:
    entries = [{"id": f"x_{number}", "text": "a" * (sizes.MAX_ANSWER * 2 // 3)} for number in (2, 1)]

    def cut_page(count: int, *, has_more: bool) -> str | None:
        last = entries[count - 1]["id"]
        body = json.loads(paging.text("things", iter(entries[:count]), last, "/things", Page(), has_more=has_more))
        assert [thing["id"] for thing in body["things"]] == ["x_2"]
        uri: str | None = body["next_page_uri"]
        return uri

    assert cut_page(1, has_more=False) is None
    assert cut_page(1, has_more=True) == cut_page(2, has_more=False) == "/things?before_id=x_2&limit=100"
