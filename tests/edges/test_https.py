"""HTTPS edges with their routes: read in as few calls as there can be, wherever the routes' records lie."""

from typing import Any

import pytest

from chalicelib import __main__ as operator
from chalicelib import ids
from chalicelib.storage.records import items, table
from tests.queries import calls
from tests.transports import Client

EDGES = "/edges/https"
MODULES: dict[str, Any] = {"oauth": {"provider": {"google": {}}}, "user_agent_filter": {"deny": ["bot"]}}


def new_edge(client: Client, routes: int) -> str:
    """Return the path of an edge with modules and routes, which have modules too."""
    address = f"{EDGES}/{client.create(EDGES, {'tls_termination': {}})['id']}"
    for number in range(routes):
        client.create(f"{address}/routes", {"match_type": "exact_path", "match": f"/{number}", **MODULES})
    return address


@pytest.fixture
def mixed(admin: Client, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the path of an edge with two routes of format 2 and, after each of them, one of format 3."""
    address = new_edge(admin, 0)
    for number, format_ in enumerate("2323"):
        monkeypatch.setenv("RECORD_FORMAT", format_)
        admin.create(f"{address}/routes", {"match_type": "exact_path", "match": f"/{number}", **MODULES})
    return address


def moved() -> None:
    operator.main(["migrate", "--apply"])


def test_a_page_of_a_hundred_edges_with_their_routes_is_three_calls(admin: Client) -> None:
    addresses = [new_edge(admin, number % 3) for number in range(100)][::-1]
    with calls() as operations:
        page = admin.get(EDGES).json
    assert [edge["uri"].removeprefix("http://localhost") for edge in page["https_edges"]] == addresses
    assert [len(edge["routes"]) for edge in page["https_edges"]] == [number % 3 for number in range(100)][::-1]
    assert operations == ["GetItem", "Query", "Query"]  # the first one is of the caller's key
    assert page["https_edges"][50] == admin.get(addresses[50]).json


def test_an_edge_with_its_routes_is_two_calls(admin: Client) -> None:
    address, other = new_edge(admin, 3), new_edge(admin, 1)
    with calls() as operations:
        routes = admin.get(address).json["routes"]
    assert operations == ["GetItem", "GetItem", "Query"]  # the first one is of the caller's key
    assert [len(routes), len(admin.get(other).json["routes"])] == [3, 1]


def test_routes_of_both_formats_are_listed_and_shown_in_their_order(admin: Client, mixed: str) -> None:
    new_edge(admin, 1)
    routes = admin.get(mixed).json["routes"]
    assert [route["match"] for route in routes] == ["/3", "/2", "/1", "/0"]
    assert admin.get(EDGES).json["https_edges"][1]["routes"] == routes
    assert list(admin.all(f"{mixed}/routes", "routes")) == routes
    for size in (1, 2, 3):
        assert list(admin.all(f"{mixed}/routes", "routes", limit=size)) == routes
    assert [admin.get(f"{mixed}/routes/{route['id']}").json for route in routes] == routes


def test_a_route_is_the_same_after_it_was_moved(admin: Client, mixed: str) -> None:
    before = admin.get(mixed)
    routes = [f"{mixed}/routes/{route['id']}" for route in before.json["routes"]]
    tags = [admin.get(route).headers["etag"] for route in routes]
    moved()
    after = admin.get(mixed)
    assert (after.json, after.headers["etag"]) == (before.json, before.headers["etag"])
    assert [admin.get(route).headers["etag"] for route in routes] == tags
    with calls() as operations:
        assert list(admin.all(f"{mixed}/routes", "routes")) == before.json["routes"]
    assert operations == ["GetItem", "GetItem", "Query"]


@pytest.mark.parametrize("is_moved", [False, True])
def test_routes_of_both_formats_are_changed_and_deleted_as_any_others(
    admin: Client, mixed: str, is_moved: bool
) -> None:
    if is_moved:
        moved()
    for route in admin.get(mixed).json["routes"]:
        address = f"{mixed}/routes/{route['id']}"
        expected = {**route, "match": f"{route['match']}/new", "user_agent_filter": None}
        assert admin.patch(address, {"match": expected["match"]}).status == 200
        assert admin.delete(f"{address}/user_agent_filter").status == 204
        assert admin.get(address).json == expected
        again = {"match_type": "exact_path", "match": expected["match"]}
        assert admin.post(f"{mixed}/routes", again).status == 409
    assert admin.delete(f"{mixed}/routes/{route['id']}").status == 204
    assert admin.get(f"{mixed}/routes/{route['id']}").status == 404
    assert len(admin.get(mixed).json["routes"]) == 3
    assert admin.delete(mixed).status == 204
    assert admin.get(address).status == 404


def test_modules_of_a_route_that_is_not_registered_are_moved_too(
    admin: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RECORD_FORMAT", "2")
    address = new_edge(admin, 1)
    oauth = f"{address}/routes/{ids.new('edghtsrt')}/oauth"
    admin.put(oauth, MODULES["oauth"])
    before = admin.get(oauth).json
    moved()
    assert "places" not in capsys.readouterr().out
    monkeypatch.delenv("RECORD_FORMAT")
    moved()
    assert "places" not in capsys.readouterr().out  # without a selected format records stay where they are
    monkeypatch.setenv("RECORD_FORMAT", "3")
    moved()
    assert "2 of the kind HTTPS edge route (place in the selected record format)" in capsys.readouterr().out
    assert admin.get(oauth).json == before
    moved()
    assert capsys.readouterr().out.endswith("to be rewritten: none.\n0 rewritten.\n")
    assert admin.delete(address).status == 204
    assert admin.get(oauth).status == 404


def test_routes_are_moved_back_for_the_version_before(
    admin: Client, mixed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = admin.get(mixed).json
    monkeypatch.setenv("RECORD_FORMAT", "2")
    moved()
    former = table.read_format_2(items.scope(admin.account, f"{mixed}/routes"))
    assert [route.id for route in former] == [route["id"] for route in before["routes"]]
    assert admin.get(mixed).json == before
