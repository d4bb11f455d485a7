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


def some(mine: Collection, count: int) -> list[Any]:
    """Return all resources of the kind, newest first, after creating so many; an account starts with one API key."""
    before = mine.entries()
    return [mine.one() for _ in range(count)][::-1] + before


def page(mine: Collection, uri: str) -> list[Any]:
    return list(mine.client.get(uri.removeprefix(BASE)).json[mine.kind.array])


def listed(mine: Collection, entries: list[Any], following: str | None) -> dict[str, Any]:
    return {mine.kind.array: entries, "uri": f"{BASE}{mine.path}", "next_page_uri": following}


@each_kind
def test_pages_show_every_entry_once_and_the_last_is_never_empty(mine: Collection) -> None:
    entries = some(mine, 3)
    answer = mine.client.get(mine.path)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json == listed(mine, entries, None)
    for limit in (1, 2, 3):
        uri: str | None = f"{mine.path}?limit={limit}"
        for start in range(0, len(entries), limit):
            shown, rest = entries[start : start + limit], entries[start + limit :]
            following = f"{BASE}{mine.path}?before_id={shown[-1]['id']}&limit={limit}" if rest else None
            assert mine.client.get((uri or "").removeprefix(BASE)).json == listed(mine, shown, following)
            uri = following


@each_kind
def test_a_page_goes_on_behind_its_last_entry_whatever_is_created_or_deleted(mine: Collection) -> None:
    entries = some(mine, 3)
    following = mine.client.get(f"{mine.path}?limit=2").json["next_page_uri"]
    newest = mine.one()
    assert page(mine, following) == entries[2:4]
    if isinstance(mine.resource, EditableResource):
        assert mine.client.delete(f"{mine.path}/{entries[1]['id']}").status == 204
        del entries[1]
        assert page(mine, following) == entries[1:3]
    assert page(mine, f"{mine.path}?before_id={ids.new(mine.kind.prefix)}") == [newest, *entries]
    behind_all = mine.client.get(f"{mine.path}?before_id={mine.kind.prefix}_{'0' * 27}")
    assert behind_all.json == listed(mine, [], None)


def test_an_answer_is_cut_before_it_is_too_large_and_leads_to_the_rest() -> None:
    entries = [{"id": f"x_{number}", "text": "a" * (sizes.MAX_ANSWER * 2 // 3)} for number in (2, 1)]

    def following(count: int, *, has_more: bool) -> str | None:
        last = entries[count - 1]["id"]
        shown = json.loads(paging.text("things", iter(entries[:count]), last, "/things", Page(), has_more=has_more))
        assert [it["id"] for it in shown["things"]] == ["x_2"]
        uri: str | None = shown["next_page_uri"]
        return uri

    assert following(1, has_more=False) is None
    assert following(1, has_more=True) == following(2, has_more=False) == "/things?before_id=x_2&limit=100"
