"""Lists, walked page by page: every entry once, the newest first, whatever else happens meanwhile."""

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Event
from typing import Any

import pytest

from tests.conftest import Served
from tests.transports import Client

PATH, ITEMS = "/backends/weighted", "backends"
COUNT = 105  # more than the largest page


@pytest.fixture(scope="module")
def shelf(served: Served) -> tuple[Client, list[Any]]:
    """Return an account with so many resources that nobody changes, the newest first."""
    client = served.newcomer().client()
    with ThreadPoolExecutor(8) as threads:
        resources = list(threads.map(lambda number: client.create(PATH, {"metadata": str(number)}), range(COUNT)))
    return client, sorted(resources, key=lambda entry: str(entry["id"]), reverse=True)


@pytest.mark.parametrize("limit", [7, 100])
def test_a_walk_meets_every_entry_once_the_newest_first(shelf: tuple[Client, list[Any]], limit: int) -> None:
    client, entries = shelf
    assert list(client.all(PATH, ITEMS, limit)) == entries


@pytest.mark.parametrize("limit", [1, 50])
def test_no_page_is_empty_and_only_the_last_leads_nowhere(shelf: tuple[Client, list[Any]], limit: int) -> None:
    client, entries = shelf
    base_url = client.transport.base_url
    page = client.get(f"{PATH}?limit={limit}&before_id={entries[limit]['id']}").json
    assert page == {
        ITEMS: entries[limit + 1 : 2 * limit + 1],
        "uri": f"{base_url}{PATH}",
        "next_page_uri": f"{base_url}{PATH}?before_id={entries[2 * limit]['id']}&limit={limit}",
    }
    last = client.get(f"{PATH}?limit={limit}&before_id={entries[-limit - 1]['id']}").json
    assert last == {ITEMS: entries[-limit:], "uri": f"{base_url}{PATH}", "next_page_uri": None}


@pytest.mark.parametrize("limit", [2, 100])
def test_a_walk_meets_what_stays_once_while_others_come_and_go(shelf: tuple[Client, list[Any]], limit: int) -> None:
    client, entries = shelf
    staying = {entry["id"] for entry in entries}
    walked = Event()

    def come_and_go() -> int:
        for number in count():
            resource = client.create(PATH, {})
            assert client.delete(f"{PATH}/{resource['id']}").status == 204
            if walked.wait(0.02):
                return number + 1
        raise AssertionError

    with ThreadPoolExecutor(1) as threads:
        churn = threads.submit(come_and_go)
        listed_ids = [entry["id"] for entry in client.all(PATH, ITEMS, limit)]
        walked.set()
        assert churn.result() > 0
    assert listed_ids == sorted(set(listed_ids), reverse=True)
    assert [id for id in listed_ids if id in staying] == [entry["id"] for entry in entries]


def test_a_walk_goes_on_where_the_entry_it_stopped_at_is_deleted(served: Served) -> None:
    newcomer = served.newcomer().client()
    resource_ids = [newcomer.create(PATH, {})["id"] for _ in range(12)]
    listed_ids = []
    uri = f"{PATH}?limit=2"
    while uri:
        page = newcomer.get(uri).json
        listed_ids += [entry["id"] for entry in page[ITEMS]]
        uri = (page["next_page_uri"] or "").removeprefix(newcomer.transport.base_url)
        assert newcomer.delete(f"{PATH}/{listed_ids[-1]}").status == 204
    assert listed_ids == resource_ids[::-1]
