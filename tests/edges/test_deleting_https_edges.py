"""Deleting an HTTPS edge takes its routes and modules with it, in steps that can be repeated after a crash."""

from typing import Any

from chalicelib import ids
from chalicelib.storage.client import aws, dynamodb
from chalicelib.storage.client.dynamodb import Condition, Write
from chalicelib.storage.records import items
from tests import records
from tests.refusals import UNAVAILABLE, assert_not_found, assert_refused
from tests.transports import Client

EDGES = "/edges/https"
HOSTPORT = "app.example.com:443"
UNKNOWN_EDGE = "There is no such edge in this account."


def new_edge(client: Client, routes: int = 0) -> tuple[str, list[str]]:
    """Return the paths of an edge with a hostport and modules, and of its routes."""
    edge = client.create(EDGES, {"hostports": [HOSTPORT], "tls_termination": {"min_version": "1.2"}})
    address = f"{EDGES}/{edge['id']}"
    modules: dict[str, Any] = {"oauth": {"provider": {"google": {}}}, "user_agent_filter": {}}
    bodies = [{"match_type": "exact_path", "match": f"/{number}", **modules} for number in range(routes)]
    return address, [f"{address}/routes/{client.create(f'{address}/routes', body)['id']}" for body in bodies]


def hold(scope: str, id: str, referrers: set[str]) -> None:
    """Point at an item, as holders that take part in nothing else."""
    dynamodb.do(Write.update(scope, id, Condition("attribute_exists(#id)"), adds={"pointed_by": referrers}))


def left_over(address: str) -> list[str]:
    """Return the scopes of all records that have to do with an edge, or with the hostport, but for its history."""
    pages = aws.client("dynamodb").get_paginator("scan").paginate(TableName="tunnel-edge")
    keys = [(record["scope"]["S"], record["id"]["S"]) for page in pages for record in page["Items"]]
    edge_id = address.rpartition("/")[2]
    scopes = [scope for scope, id in keys if edge_id in scope or id == edge_id or HOSTPORT in scope]
    return [scope for scope in scopes if not scope.startswith("edge#/left_hostports/")]


def test_its_routes_and_modules_go_with_an_edge(admin: Client) -> None:
    address, routes = new_edge(admin, routes=3)
    deleted = admin.delete(address)
    assert (deleted.status, deleted.text) == (204, "")
    assert_not_found(admin.get(address), EDGES)
    assert admin.get(f"{address}/tls_termination").status == 404
    for route in routes:
        assert admin.get(route).status == 404
        assert admin.get(f"{route}/oauth").status == 404
        assert admin.get(f"{route}/user_agent_filter").status == 404
    assert left_over(address) == []
    assert admin.create(EDGES, {"hostports": [HOSTPORT]})["hostports"] == [HOSTPORT]


def test_modules_of_routes_that_were_never_registered_go_too(admin: Client) -> None:
    address, _ = new_edge(admin)
    oauth = f"{address}/routes/{ids.new('edghtsrt')}/oauth"
    admin.put(oauth, {"provider": {"google": {}}})
    assert admin.delete(address).status == 204
    assert admin.get(oauth).status == 404
    assert left_over(address) == []


def test_an_edge_gains_no_more_than_a_hundred_routes(admin: Client) -> None:
    address, _ = new_edge(admin)
    scope, edge_id = items.scope(admin.account, EDGES), address.rpartition("/")[2]
    hold(scope, edge_id, {f"{address}/routes/{number}" for number in range(99)})
    admin.create(f"{address}/routes", {"match_type": "exact_path", "match": "/100"})
    answer = admin.post(f"{address}/routes", {"match_type": "exact_path", "match": "/101"})
    assert_refused(answer, 409, "conflict", "The edge already has 100 routes, the maximum: delete one first.")


def test_an_edge_is_off_its_hostports_before_it_loses_a_route(admin: Client) -> None:
    address, _ = new_edge(admin, routes=1)
    hold(items.scope(admin.account, EDGES), address.rpartition("/")[2], {"/what/never/lets/go"})
    answer = admin.delete(address)
    assert_refused(answer, 503, "unavailable", UNAVAILABLE)
    assert admin.get(address).json["hostports"] == []


def test_a_deletion_that_broke_off_can_be_repeated(admin: Client) -> None:
    address, routes = new_edge(admin, routes=4)
    for route in routes[1:3]:  # as far as the crashed one came
        records.delete(items.scope(admin.account, f"{address}/routes"), route.rpartition("/")[2])
    route_paths = [route["uri"].removeprefix("http://localhost") for route in admin.get(address).json["routes"]]
    assert route_paths == [routes[3], routes[0]]
    assert admin.post(EDGES, {"hostports": [HOSTPORT]}).status == 409
    assert admin.delete(address).status == 204
    assert left_over(address) == []
    assert_not_found(admin.delete(address), EDGES)


def test_no_route_can_be_created_on_a_deleted_edge(admin: Client) -> None:
    address, routes = new_edge(admin, routes=1)
    admin.delete(address)
    request = {"match_type": "exact_path", "match": "/0"}
    assert_refused(admin.post(f"{address}/routes", request), 404, "not_found", UNKNOWN_EDGE)
    assert admin.patch(routes[0], request).status == 404
    assert left_over(address) == []


def test_the_routes_of_other_edges_and_accounts_stay(admin: Client, stranger: Client) -> None:
    address, _ = new_edge(admin, routes=1)
    remaining_routes = []
    for client in (admin, stranger):
        other = f"{EDGES}/{client.create(EDGES, {})['id']}"
        client.create(f"{other}/routes", {"match_type": "exact_path", "match": "/0"})
        remaining_routes.append((client, other, client.get(other).json))
    assert_not_found(stranger.delete(address), EDGES)
    assert admin.delete(address).status == 204
    for client, other, before in remaining_routes:
        assert client.get(other).json == before


def test_a_route_and_its_match_go_alone_too(admin: Client) -> None:
    address, routes = new_edge(admin, routes=2)
    assert admin.delete(routes[0]).status == 204
    assert admin.get(f"{routes[0]}/oauth").status == 404
    assert [route["uri"] for route in admin.get(address).json["routes"]] == [f"http://localhost{routes[1]}"]
    admin.create(f"{address}/routes", {"match_type": "exact_path", "match": "/0"})
