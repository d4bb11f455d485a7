"""Attaching against deleting, with strict references: whoever wins, nothing refers to what is gone."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.conftest import serve
from tests.samples import BODIES
from tests.served.racing import at_once
from tests.transports import Answer, Client

ROUNDS, CLIENTS = 20, 8
MOST = 200  # rounds, until everyone has won once
EACH_WON = [("PUT", 200), ("PATCH", 200), ("POST", 201), ("DELETE", 204), ("DELETE", 409)]
EDGES, BACKENDS, AUTHORITIES = "/edges/tls", "/backends/weighted", "/certificate_authorities"
Request = tuple[str, str, Any]
Answered = list[tuple[Request, Answer]]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Yield the first account's admin at an API whose references are strict."""
    process, api = serve(tmp_path_factory.mktemp("strict") / "local", STRICT_REFERENCES="true")
    yield api.client()
    process.terminate()
    process.wait(timeout=30)


def module_for(target: str) -> tuple[str, dict[str, Any]]:
    """Return the name and body of the module that refers to a target."""
    id = target.rpartition("/")[2]
    if target.startswith(AUTHORITIES):
        return "mutual_tls", {"certificate_authority_ids": [id]}
    return "backend", {"backend_id": id}


def build_attachments(target: str, edges: list[str]) -> list[Request]:
    """As many requests as there are edges that have something refer to the target, in four ways."""
    name, module = module_for(target)
    ways: list[Request] = [("PUT", f"{edge}/{name}", module) for edge in edges]
    ways[1::4] = [("PATCH", edge, {name: module}) for edge in edges[1::4]]
    ways[2::4] = [("POST", EDGES, {name: module}) for _ in edges[2::4]]
    if name == "backend":
        ways[3::4] = [("POST", BACKENDS, {"backends": {module["backend_id"]: 1}}) for _ in edges[3::4]]
    return ways


def send_at_once(client: Client, requests: list[Request]) -> Answered:
    return list(zip(requests, at_once([partial(client.send, *request) for request in requests]), strict=True))


def find_referrers(client: Client, target: str, attached: Answered) -> set[str]:
    """Return the paths of what refers to the target, of all that was answered with success."""
    name, _ = module_for(target)
    won = [(request, answer.json) for request, answer in attached if answer.status in (200, 201)]
    paths = {path for (method, path, _), _ in won if method == "PUT"}
    created_paths = [
        body["uri"].removeprefix(client.transport.base_url) for (method, _, _), body in won if method != "PUT"
    ]
    return paths | {f"{path}/{name}" if path.startswith(EDGES) else path for path in created_paths}


def check(client: Client, target: str, attached: Answered, deleted: Answered) -> None:
    """Assert that a round ended with the target gone, or pointed at and refused to go for those who do."""
    deletions = [answer for _, answer in deleted if answer.status == 204]
    referring = find_referrers(client, target, attached)
    assert client.get(target).status == (404 if deletions else 200)
    assert len(deletions) <= 1
    assert not (deletions and referring)
    for _, answer in attached:
        assert answer.status in (200, 201, 503) or answer.json["error_code"] == "unknown_reference", answer.text
    for _, answer in deleted:
        assert answer.status in (204, 404, 409, 503), answer.text
        if answer.status == 409:
            referrers = {value for key, value in answer.json["details"].items() if key.startswith("used_by.")}
            assert referrers
            assert referrers <= referring
    assert all("retry-after" in answer.headers for _, answer in (*attached, *deleted) if answer.status == 503)


def check_deleted(client: Client, edge: str, routed: Answered, deleted: Answered) -> None:
    """Assert that an edge is gone with its routes, or there with all of them."""
    route_ids = [answer.json["id"] for _, answer in routed if answer.status == 201]
    statuses = Counter(answer.status for _, answer in deleted)
    assert statuses.keys() <= {204, 404, 503}
    assert statuses[204] <= 1
    assert all(answer.status in (201, 404, 503) for _, answer in routed)
    routes = [client.get(f"{edge}/routes/{id}").status for id in route_ids]
    if statuses[204]:
        assert client.get(edge).status == 404
        assert routes == [404] * len(route_ids)
    else:
        listed_ids = {route["id"] for route in client.get(edge).json["routes"]}
        assert listed_ids == {id for id, status in zip(route_ids, routes, strict=True) if status == 200}


def named_anywhere(client: Client) -> set[str]:
    """Return the addresses of all that anything refers to."""
    refs = []
    for edge in client.all(EDGES, "tls_edges"):
        refs += [edge["backend"]["backend"]] if edge["backend"] else []
        refs += edge["mutual_tls"]["certificate_authorities"] if edge["mutual_tls"] else []
    children = [id for backend in client.all(BACKENDS, "backends") for id in backend["backends"]]
    return {ref["uri"] for ref in refs} | {f"{client.transport.base_url}{BACKENDS}/{id}" for id in children}


def test_attaching_and_deleting_in_a_race_leaves_nothing_that_points_at_nothing(client: Client) -> None:
    edges = [f"{EDGES}/{client.create(EDGES, {})['id']}" for _ in range(CLIENTS)]
    authority = BODIES[AUTHORITIES](client)
    outcomes: Counter[tuple[str, int]] = Counter()
    for number in range(MOST):
        path, body = (AUTHORITIES, authority) if number % 4 == 3 else (BACKENDS, {})
        target = f"{path}/{client.create(path, body)['id']}"
        deleters = 1 + number % 3
        requests = build_attachments(target, edges[deleters:]) + [("DELETE", target, None)] * deleters
        answers = send_at_once(client, requests)
        check(client, target, answers[:-deleters], answers[-deleters:])
        outcomes += Counter((method, answer.status) for (method, _, _), answer in answers)
        if number >= ROUNDS and outcomes.keys() >= {*EACH_WON}:
            break
    existing = {entry["uri"] for entry in client.all(BACKENDS, "backends")}
    existing |= {entry["uri"] for entry in client.all(AUTHORITIES, "certificate_authorities")}
    assert named_anywhere(client) <= existing
    assert outcomes.keys() >= {*EACH_WON}


def test_creating_routes_and_deleting_their_edge_in_a_race_leaves_no_route_without_an_edge(client: Client) -> None:
    outcomes: Counter[tuple[str, int]] = Counter()
    for number in range(ROUNDS // 4):
        edge = f"/edges/https/{client.create('/edges/https', {})['id']}"
        deleters = 1 + number % 3
        bodies = [{"match_type": "exact_path", "match": f"/{number}"} for number in range(CLIENTS - deleters)]
        requests: list[Request] = [("POST", f"{edge}/routes", route) for route in bodies]
        answers = send_at_once(client, requests + [("DELETE", edge, None)] * deleters)
        check_deleted(client, edge, answers[:-deleters], answers[-deleters:])
        outcomes += Counter((method, answer.status) for (method, _, _), answer in answers)
    assert min(outcomes["POST", 201], outcomes["DELETE", 204]) > 0, outcomes
