"""Lists, for every kind of resource (SPEC 2.1): newest first, in pages that lead to one another and are never empty."""

from typing import Any

import pytest

from chalicelib import ids
from tests.refusals import assert_invalid
from tests.samples import Collection, each_editable_kind, each_kind
from tests.transports import Client

BASE = "http://localhost"
LIMIT = "must be a whole number from 1 to 100"
ID = "must be an id; it need not exist any more"
ONCE = "must be given once"
UNKNOWN = "is not a field here; known: before_id, limit"


def some(mine: Collection, count: int) -> list[Any]:
    """All resources of the kind, newest first, after creating so many; an account starts with one API key."""
    before = mine.entries()
    return [mine.one() for _ in range(count)][::-1] + before


def page(mine: Collection, uri: str) -> list[Any]:
    return list(mine.client.get(uri.removeprefix(BASE)).json[mine.kind.array])


@each_kind
def test_a_list_has_its_entries_its_address_and_no_next_page(mine: Collection) -> None:
    entries = some(mine, 2)
    answer = mine.client.get(mine.path)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json == {mine.kind.array: entries, "uri": f"{BASE}{mine.path}", "next_page_uri": None}


@each_kind
def test_a_list_of_nothing_is_an_empty_array(mine: Collection) -> None:
    answer = mine.client.get(f"{mine.path}?before_id={mine.kind.prefix}_{'0' * 27}")
    assert answer.json == {mine.kind.array: [], "uri": f"{BASE}{mine.path}", "next_page_uri": None}


@each_kind
def test_pages_show_every_entry_once_and_the_last_is_never_empty(mine: Collection) -> None:
    entries = some(mine, 3)
    for limit in (1, 2, 3):
        pages, uri = [], f"{BASE}{mine.path}?limit={limit}"
        while uri:
            answer = mine.client.get(uri.removeprefix(BASE)).json
            pages.append(answer[mine.kind.array])
            uri = answer["next_page_uri"]
        assert [entry for page in pages for entry in page] == entries
        assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)
        assert pages[-1]


@each_kind
def test_a_next_page_carries_the_last_id_and_the_limit(mine: Collection) -> None:
    entries = some(mine, 3)
    following = f"{BASE}{mine.path}?before_id={entries[1]['id']}&limit=2"
    assert mine.client.get(f"{mine.path}?limit=2").json == {
        mine.kind.array: entries[:2],
        "uri": f"{BASE}{mine.path}",
        "next_page_uri": following,
    }


@each_editable_kind
def test_a_page_goes_on_behind_an_entry_that_was_deleted(mine: Collection) -> None:
    entries = some(mine, 3)
    following = mine.client.get(f"{mine.path}?limit=2").json["next_page_uri"]
    assert mine.client.delete(f"{mine.path}/{entries[1]['id']}").status == 204
    assert page(mine, following) == entries[2:4]


@each_kind
def test_what_is_created_between_two_pages_is_not_on_the_second(mine: Collection) -> None:
    entries = some(mine, 3)
    following = mine.client.get(f"{mine.path}?limit=2").json["next_page_uri"]
    mine.one()
    assert page(mine, following) == entries[2:4]


@each_kind
def test_before_id_may_name_what_never_was(mine: Collection) -> None:
    entries = some(mine, 1)
    assert page(mine, f"{mine.path}?before_id={ids.new(mine.kind.prefix)}") == entries


@each_kind
def test_before_id_is_of_the_lists_own_kind(mine: Collection) -> None:
    for prefix in ("aaa", "zzz", f"{mine.kind.prefix}x", mine.kind.prefix[1:]):
        answer = mine.client.get(f"{mine.path}?before_id={ids.new(prefix)}")
        assert_invalid(answer, {"before_id": f"must be an id of this list, which begins with {mine.kind.prefix}_"})


@pytest.mark.parametrize(
    ("query", "errors"),
    [
        ("limit=0", {"limit": LIMIT}),
        ("limit=101", {"limit": LIMIT}),
        ("limit=abc", {"limit": LIMIT}),
        ("limit=", {"limit": LIMIT}),
        ("limit=-1", {"limit": LIMIT}),
        ("limit=1.0", {"limit": LIMIT}),
        ("limit=%2B1", {"limit": LIMIT}),
        ("limit=%D9%A1", {"limit": LIMIT}),
        (f"limit={'9' * 5000}", {"limit": LIMIT}),
        ("before_id=", {"before_id": ID}),
        ("before_id=abc", {"before_id": ID}),
        (f"before_id=ak_{'0' * 26}", {"before_id": ID}),
        (f"before_id=ak_{'-' * 27}", {"before_id": ID}),
        ("limit=1&limit=1", {"limit": ONCE}),
        ("page=2", {"page": UNKNOWN}),
        ("Limit=2", {"Limit": UNKNOWN}),
        ("limit=0&before_id=x&page=2&page=3", {"before_id": ID, "limit": LIMIT, "page": ONCE}),
    ],
)
def test_a_query_that_breaks_a_rule_is_refused_with_every_fault(
    admin: Client, query: str, errors: dict[str, str]
) -> None:
    assert_invalid(admin.get(f"/api_keys?{query}"), errors)


@each_kind
def test_every_list_checks_its_query(mine: Collection) -> None:
    answer = mine.client.get(f"{mine.path}?limit=0&page=2")
    known = ", ".join(mine.resource.endpoints()[0].query)
    assert_invalid(answer, {"limit": LIMIT, "page": f"is not a field here; known: {known}"})


@each_kind
def test_only_lists_take_a_query(mine: Collection) -> None:
    one = mine.one()
    for endpoint in mine.endpoints_of_one():
        answer = mine.client.send(endpoint.method, f"{mine.address(endpoint, one['id'])}?limit=1")
        assert_invalid(answer, {"limit": "is not a field here; known: none"})
    assert mine.read(one["id"]) == one


@each_editable_kind
def test_a_creation_takes_no_query(mine: Collection) -> None:
    request, before = mine.body(), mine.entries()
    answer = mine.client.post(f"{mine.path}?dry_run=true", request)
    assert_invalid(answer, {"dry_run": "is not a field here; known: none"})
    assert mine.entries() == before
