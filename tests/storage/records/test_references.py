"""Strict references: what an edge refers to is there, and stays until no edge does (in a race: tests/served)."""

from collections.abc import Callable
from typing import Any

import pytest

from chalicelib import ids
from chalicelib.storage.client import aws
from chalicelib.storage.records import items, references
from tests.refusals import assert_not_found, assert_refused
from tests.samples import BODIES
from tests.transports import Answer, Client

BACKENDS = "/backends/weighted"
EDGES = "/edges/tls"


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRICT_REFERENCES", "true")


def new_backend(client: Client) -> str:
    return str(client.create(BACKENDS, {})["id"])


def new_edge(client: Client, backend_id: str | None) -> str:
    """Return the path of an edge with the backend."""
    return f"{EDGES}/{client.create(EDGES, {'backend': {'backend_id': backend_id}})['id']}"


def assert_held(answer: Answer, *referrers: str) -> None:
    details = {f"used_by.{index}": referrer for index, referrer in enumerate(sorted(referrers))}
    assert_refused(answer, 409, "conflict", f"The resource is in use by {', '.join(sorted(referrers))}.", details)


def assert_unknown(answer: Answer, field: str, id: str) -> None:
    assert_refused(
        answer,
        400,
        "unknown_reference",
        f"'{field}' names a resource that does not exist.",
        {field: f"{id} does not exist"},
    )


def test_a_backend_stays_while_edges_point_at_it_and_the_refusal_names_them(admin: Client) -> None:
    backend = admin.create(BACKENDS, {"description": "d"})
    edges = [new_edge(admin, backend["id"]) for _ in range(3)]
    for count in (3, 2, 1):
        answer = admin.delete(f"{BACKENDS}/{backend['id']}")
        assert_held(answer, *(f"{edge}/backend" for edge in edges[:count]))
        assert admin.get(f"{BACKENDS}/{backend['id']}").json == backend
        admin.delete(f"{edges[count - 1]}/backend")
    assert admin.delete(f"{BACKENDS}/{backend['id']}").status == 204
    assert_not_found(admin.get(f"{BACKENDS}/{backend['id']}"), BACKENDS)


Detach = Callable[[Client, str], Answer]
WAYS: dict[str, Detach] = {
    "delete the module": lambda client, edge: client.delete(f"{edge}/backend"),
    "put null": lambda client, edge: client.put(f"{edge}/backend", {"backend_id": None}),
    "put nothing": lambda client, edge: client.put(f"{edge}/backend", None),
    "put another": lambda client, edge: client.put(f"{edge}/backend", {"backend_id": new_backend(client)}),
    "change the backend to null": lambda client, edge: client.patch(edge, {"backend": {"backend_id": None}}),
    "change to another": lambda client, edge: client.patch(edge, {"backend": {"backend_id": new_backend(client)}}),
    "delete the edge": lambda client, edge: client.delete(edge),
}


@pytest.mark.parametrize("detach", WAYS.values(), ids=WAYS)
def test_every_way_to_detach_a_backend_frees_it(admin: Client, detach: Detach) -> None:
    backend = new_backend(admin)
    edge = new_edge(admin, backend)
    assert_held(admin.delete(f"{BACKENDS}/{backend}"), f"{edge}/backend")
    assert detach(admin, edge).status in (200, 204)
    assert admin.delete(f"{BACKENDS}/{backend}").status == 204


def test_one_backend_instead_of_another_frees_the_one_and_holds_the_other(admin: Client) -> None:
    first, other = new_backend(admin), new_backend(admin)
    edge = new_edge(admin, first)
    admin.put(f"{edge}/backend", {"backend_id": other})
    assert_held(admin.delete(f"{BACKENDS}/{other}"), f"{edge}/backend")
    admin.patch(edge, {"backend": {"backend_id": first}})
    assert_held(admin.delete(f"{BACKENDS}/{first}"), f"{edge}/backend")
    assert admin.delete(f"{BACKENDS}/{other}").status == 204


def test_the_same_backend_again_and_other_changes_hold_it_as_before(admin: Client) -> None:
    backend = new_backend(admin)
    edge = new_edge(admin, backend)
    assert admin.put(f"{edge}/backend", {"backend_id": backend, "enabled": False}).status == 200
    assert admin.patch(edge, {"description": "d", "hostports": ["app.example.com:443"]}).status == 200
    assert admin.delete(f"{edge}/mutual_tls").status == 404
    assert admin.patch(edge, {"backend": None, "mutual_tls": None}).status == 200
    assert_held(admin.delete(f"{BACKENDS}/{backend}"), f"{edge}/backend")
    assert admin.delete(edge).status == 204
    assert admin.delete(f"{BACKENDS}/{backend}").status == 204


def test_a_deleted_edge_frees_all_it_pointed_at(admin: Client) -> None:
    path = "/certificate_authorities"
    backend, body = new_backend(admin), BODIES[path](admin)
    authorities = [admin.create(path, body)["id"] for _ in range(3)]
    modules: dict[str, Any] = {
        "backend": {"backend_id": backend},
        "mutual_tls": {"certificate_authority_ids": authorities},
    }
    edge = f"{EDGES}/{admin.create(EDGES, {**modules, 'hostports': ['app.example.com:443']})['id']}"
    targets = [f"{BACKENDS}/{backend}", *(f"{path}/{id}" for id in authorities)]
    assert [admin.delete(target).status for target in targets] == [409] * 4
    assert admin.delete(edge).status == 204
    assert [admin.delete(target).status for target in targets] == [204] * 4


def test_no_edge_is_created_that_points_at_nothing(admin: Client, stranger: Client) -> None:
    hostports = ["app.example.com:443"]
    for unknown in (ids.new("bkdwd"), ids.new("bkdxy"), new_backend(stranger)):
        answer = admin.post(EDGES, {"hostports": hostports, "backend": {"backend_id": unknown}})
        assert_unknown(answer, "backend.backend_id", unknown)
    authority = ids.new("ca")
    answer = admin.post(EDGES, {"hostports": hostports, "mutual_tls": {"certificate_authority_ids": [authority]}})
    assert_unknown(answer, "mutual_tls.certificate_authority_ids", authority)
    assert admin.get(EDGES).json["tls_edges"] == []
    assert admin.create(EDGES, {"hostports": hostports})["hostports"] == hostports


def test_no_edge_is_changed_to_point_at_nothing(admin: Client, stranger: Client) -> None:
    backend, unknown = new_backend(admin), ids.new("bkdwd")
    edge = new_edge(admin, backend)
    before = admin.get(edge).json
    answer = admin.patch(edge, {"description": "new", "backend": {"backend_id": unknown}})
    assert_unknown(answer, "backend.backend_id", unknown)
    deleted, stranger_backend = new_backend(admin), new_backend(stranger)
    admin.delete(f"{BACKENDS}/{deleted}")
    for id in (unknown, deleted, stranger_backend, ids.new("bkdxy")):
        assert_unknown(admin.put(f"{edge}/backend", {"backend_id": id}), "backend_id", id)
    assert admin.get(edge).json == before
    assert_held(admin.delete(f"{BACKENDS}/{backend}"), f"{edge}/backend")


def test_a_backend_is_pointed_at_by_a_thousand_at_most(admin: Client) -> None:
    backend, edge = new_backend(admin), new_edge(admin, None)
    referrers = [f"/edges/tls/{ids.new('edgtls')}/backend" for _ in range(references.MAX_REFERRERS)]
    aws.client("dynamodb").update_item(
        TableName="tunnel-edge",
        Key={"scope": {"S": items.scope(admin.account, BACKENDS)}, "id": {"S": backend}},
        UpdateExpression="SET pointed_by = :holders",
        ExpressionAttributeValues={":holders": {"SS": referrers}},
    )
    answer = admin.put(f"{edge}/backend", {"backend_id": backend})
    rule = {"backend_id": f"{backend} can have at most 1000 resources that refer to it"}
    assert_refused(
        answer, 409, "conflict", "'backend_id' names a resource to which too many others refer already.", rule
    )
    assert admin.get(f"{edge}/backend").json == {"enabled": True, "backend": None}


def test_without_strict_references_nothing_is_held(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRICT_REFERENCES", "false")
    backend = new_backend(admin)
    edge = new_edge(admin, backend)
    assert admin.delete(f"{BACKENDS}/{backend}").status == 204
    assert admin.get(f"{edge}/backend").json["backend"]["id"] == backend
    assert admin.put(f"{edge}/backend", {"backend_id": backend}).status == 200


@pytest.mark.parametrize("detach", [WAYS["put another"], WAYS["change to another"], WAYS["delete the edge"]])
def test_what_was_held_is_freed_also_after_references_are_strict_no_more(
    admin: Client, monkeypatch: pytest.MonkeyPatch, detach: Detach
) -> None:
    backend = new_backend(admin)
    edge = new_edge(admin, backend)
    monkeypatch.delenv("STRICT_REFERENCES")
    assert_held(admin.delete(f"{BACKENDS}/{backend}"), f"{edge}/backend")
    assert detach(admin, edge).status in (200, 204)
    assert admin.delete(f"{BACKENDS}/{backend}").status == 204


def test_another_accounts_edges_hold_nothing_here(admin: Client, stranger: Client) -> None:
    backend, stranger_backend = new_backend(admin), new_backend(stranger)
    edge = new_edge(stranger, stranger_backend)
    assert admin.delete(f"{BACKENDS}/{backend}").status == 204
    assert_held(stranger.delete(f"{BACKENDS}/{stranger_backend}"), f"{edge}/backend")
    assert_not_found(admin.delete(f"{BACKENDS}/{stranger_backend}"), BACKENDS)
