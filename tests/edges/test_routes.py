"""Routes of HTTPS edges by their own rules; what all kinds of resources share is tested once for all of them."""

from typing import Any

import pytest

from chalicelib import ids
from chalicelib.model.base import kinds
from chalicelib.modules import of as modules_of
from tests.refusals import assert_invalid, assert_not_found, assert_refused
from tests.transports import Answer, Client

EDGES = "/edges/https"
ROUTES = "/edges/https/{edge_id}/routes"
MATCH = "must be a path that starts with a slash and contains no space"
UNKNOWN_EDGE = "There is no such edge in this account."


def new_edge(client: Client) -> str:
    """Return the path of the routes of a fresh edge."""
    return f"{EDGES}/{client.create(EDGES, {})['id']}/routes"


def new_route(client: Client, path: str, match: str = "/", match_type: str = "path_prefix", **fields: Any) -> Any:
    return client.create(path, {"match_type": match_type, "match": match, **fields})


def assert_taken(answer: Answer) -> None:
    rule = {"match": "must be a value that no other resource uses"}
    assert_refused(answer, 409, "conflict", "'match' is in use already.", rule)


def test_an_https_edge_shows_its_routes_whole_and_newest_first(admin: Client) -> None:
    edge = admin.create(EDGES, {})
    address = f"{EDGES}/{edge['id']}"
    assert edge["routes"] == []
    modules: dict[str, Any] = {"user_agent_filter": {"enabled": True, "allow": [], "deny": ["bot"]}}
    routes = [new_route(admin, f"{address}/routes", f"/{name}", **modules) for name in "abc"]
    assert routes[0] == {
        "id": routes[0]["id"],
        "uri": f"http://localhost{address}/routes/{routes[0]['id']}",
        "created_at": routes[0]["created_at"],
        "description": "",
        "metadata": "",
        "match_type": "path_prefix",
        "match": "/a",
        "edge_id": edge["id"],
        **dict.fromkeys(module.name for module in modules_of(kinds.HTTPS_EDGE_ROUTES)),
        **modules,
    }
    response = {**edge, "routes": routes[::-1]}
    assert admin.get(address).json == response
    assert admin.get(EDGES).json["https_edges"] == [response]
    assert admin.patch(address, {"description": "d"}).json == {**response, "description": "d"}
    admin.delete(f"{address}/routes/{routes[1]['id']}")
    assert admin.get(address).json == {**response, "description": "d", "routes": [routes[2], routes[0]]}


@pytest.mark.parametrize("match_type", ["exact_path", "path_prefix"])
def test_a_route_matches_a_path_or_its_beginning(admin: Client, match_type: str) -> None:
    path = new_edge(admin)
    for match in ("/", "/api/v1", "/a//b", "/%20", "/~user/!$&'()*+,;=:@", "/" + "x" * 1023):
        route = new_route(admin, path, match, match_type)
        assert (route["match_type"], route["match"]) == (match_type, match)


def test_a_match_that_is_no_path_is_refused(admin: Client) -> None:
    path = new_edge(admin)
    route = new_route(admin, path)
    for match in ("", "api", "/a b", " /", "/é", "/a\n", "*", "http://a/"):
        assert_invalid(admin.post(path, {"match_type": "exact_path", "match": match}), {"match": MATCH})
    assert_invalid(admin.patch(f"{path}/{route['id']}", {"match": "api"}), {"match": MATCH})
    too_long = {"match": "must be at most 1024 bytes of UTF-8"}
    assert_invalid(admin.post(path, {"match_type": "exact_path", "match": "/" + "x" * 1024}), too_long)
    assert admin.get(path).json["routes"] == [route]


def test_metadata_of_a_route_is_bounded_as_answers_carry_it(admin: Client) -> None:
    path = new_edge(admin)
    for number, longest in enumerate(("\\" * 4095, '"' * 4095, "🦊" * 1024, "\0" * 2340)):
        assert new_route(admin, path, f"/{number}", metadata=longest)["metadata"] == longest
    answer = admin.post(path, {"match_type": "exact_path", "match": "/", "metadata": "\0" * 2341})
    rule = "must be at most 16384 characters as JSON in ASCII, with each quote and backslash counted twice"
    assert_invalid(answer, {"metadata": rule})


def test_a_route_needs_both_of_its_fields(admin: Client) -> None:
    path = new_edge(admin)
    assert_invalid(admin.post(path, {}), {"match_type": "is required", "match": "is required"})
    one_of = "must be one of 'exact_path' or 'path_prefix'"
    for match_type in ("regex", "", None, 1):
        answer = admin.post(path, {"match_type": match_type, "match": None})
        assert_invalid(answer, {"match_type": one_of, "match": "must be a string"})
    route = new_route(admin, path)
    assert_invalid(admin.patch(f"{path}/{route['id']}", {"match_type": "regex"}), {"match_type": one_of})


def test_no_edge_has_two_routes_that_match_the_same(admin: Client) -> None:
    path = new_edge(admin)
    route = new_route(admin, path, "/a", "exact_path")
    assert_taken(admin.post(path, {"match_type": "exact_path", "match": "/a"}))
    new_route(admin, path, "/a", "path_prefix")
    new_route(admin, path, "/A", "exact_path")
    admin.delete(f"{path}/{route['id']}")
    new_route(admin, path, "/a", "exact_path")


def test_other_edges_and_accounts_may_match_the_same(admin: Client, stranger: Client) -> None:
    for client in (admin, admin, stranger):
        path = new_edge(client)
        route = new_route(client, path, "/a")
        assert client.get(path).json["routes"] == [route]


def test_a_changed_route_moves_its_match(admin: Client) -> None:
    path = new_edge(admin)
    route = new_route(admin, path, "/a", "exact_path")
    address = f"{path}/{route['id']}"
    assert admin.patch(address, {"match_type": "path_prefix"}).json == {**route, "match_type": "path_prefix"}
    other = new_route(admin, path, "/a", "exact_path")
    assert_taken(admin.patch(address, {"match_type": "exact_path", "description": "new"}))
    assert admin.get(address).json == {**route, "match_type": "path_prefix"}
    assert admin.patch(address, {"match": "/b"}).json == {**route, "match_type": "path_prefix", "match": "/b"}
    assert admin.patch(f"{path}/{other['id']}", {"match_type": "path_prefix"}).status == 200
    assert_taken(admin.patch(address, {"match": "/a"}))
    assert admin.patch(address, {"match": "/a", "match_type": "exact_path"}).json == route


def test_a_change_of_something_else_keeps_the_match(admin: Client) -> None:
    path = new_edge(admin)
    route = new_route(admin, path, "/a")
    for match in ({"match": "/a"}, {"match": "", "match_type": ""}):
        change = {**match, "metadata": "m"}
        assert admin.patch(f"{path}/{route['id']}", change).json == {**route, "metadata": "m"}
    assert_taken(admin.post(path, {"match_type": "path_prefix", "match": "/a"}))


def test_the_edge_of_a_route_is_the_one_in_its_path_and_may_be_repeated_in_the_body(admin: Client) -> None:
    path = new_edge(admin)
    edge_id, rule = path.split("/")[3], {"edge_id": "must be the id in the path, or absent"}
    fields = {"match_type": "exact_path", "match": "/"}
    for other in (ids.new("edghts"), "", None, 1):
        assert_invalid(admin.post(path, {**fields, "edge_id": other}), rule)
    route = admin.create(path, {**fields, "edge_id": edge_id})
    address = f"{path}/{route['id']}"
    assert_invalid(admin.patch(address, {"edge_id": ids.new("edghts"), "match": "/x"}), rule)
    repeated = {"edge_id": edge_id, "id": route["id"], "match": "/x"}
    assert admin.patch(address, repeated).json == {**route, "match": "/x"}


def test_an_edge_that_is_not_known_has_no_routes(admin: Client, stranger: Client) -> None:
    routes_path = new_edge(admin)
    admin.delete(routes_path.removesuffix("/routes"))
    for path in (routes_path, f"{EDGES}/{ids.new('edghts')}/routes", new_edge(stranger)):
        assert_refused(admin.post(path, {"match_type": "exact_path", "match": "/"}), 404, "not_found", UNKNOWN_EDGE)
        assert_refused(admin.get(path), 404, "not_found", UNKNOWN_EDGE)
        assert_not_found(admin.get(f"{path}/{ids.new('edghtsrt')}"), ROUTES)
    for edge_id in ("edghts_short", ids.new("edgtls"), "x", "%20"):
        assert_not_found(admin.get(f"{EDGES}/{edge_id}/routes"), EDGES)


def test_a_route_of_another_edge_is_not_found(admin: Client, stranger: Client) -> None:
    path = new_edge(admin)
    route = new_route(admin, path)
    for client in (admin, stranger):
        other = new_edge(client)
        for method, body in (("GET", None), ("PATCH", {"match": "/x"}), ("DELETE", None)):
            assert_not_found(client.send(method, f"{other}/{route['id']}", body), ROUTES)
        assert client.get(other).json["routes"] == []
    assert admin.get(f"{path}/{route['id']}").json == route
