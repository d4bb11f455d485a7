"""Lists of heavy edges: a page reads what it shows and no more, also with large old records."""

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from chalicelib import ids
from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import items
from chalicelib.storage.records.items import Item
from tests import conformity
from tests.queries import reads
from tests.transports import Client

PATH = "/edges/https"
NUMBERS = count()


@pytest.fixture
def owner(admin: Client) -> Client:
    """Return a client that does not mind what is larger than the document says."""
    return replace(admin, check=conformity.of_another_app)


def heavy_edge(client: Client, routes: int) -> Any:
    """Return an edge with routes of 250,000 characters each, as there may be some from before the bounds."""
    edge = client.create(PATH, {})
    scope = items.scope(client.account, f"{PATH}/{edge['id']}/routes")
    for _ in range(routes):
        match = {"match_type": "exact_path", "match": f"/{next(NUMBERS)}", "edge_id": edge["id"]}
        body = {"created_at": edge["created_at"], "description": "", "metadata": "m" * 250_000, **match}
        dynamodb.do(Write.put(Item(scope, ids.new("edghtsrt"), body).to_record()))
    return client.get(f"{PATH}/{edge['id']}").json


@pytest.fixture
def heavy(owner: Client) -> list[Any]:
    """Four edges, the newest first, of which an answer holds two."""
    return [heavy_edge(owner, routes=9) for _ in range(4)][::-1]


def test_a_page_shows_what_fits_and_reads_no_more(owner: Client, heavy: list[Any]) -> None:
    read: list[int] = []
    uri, pages = PATH, []
    while uri:
        with reads() as counts:
            page = owner.get(uri).json
        pages.append(page["https_edges"])
        read += counts
        uri = (page["next_page_uri"] or "").removeprefix("http://localhost")
    assert pages == [heavy[:2], heavy[2:]]
    edges, routes = [4, 2], 4 * 9
    assert sum(read) - sum(edges) <= routes + 4  # what DynamoDB reads at once, 1 MB, may begin the next page's


def test_light_edges_around_a_heavy_one_are_all_shown(owner: Client) -> None:
    edges = [heavy_edge(owner, routes) for routes in (0, 9, 0, 1, 0)][::-1]
    assert list(owner.all(PATH, "https_edges")) == edges
