"""The three kinds of edges by their own rules: shown whole, and apart. What all kinds share is tested once for all."""

from typing import Any

import pytest

from chalicelib import edges
from chalicelib.http.resource import Resource
from tests.refusals import assert_invalid, assert_not_found
from tests.transports import Client

HOSTPORTS = {
    "/edges/https": ["app.example.com:443", "*.example.org:443"],
    "/edges/tls": ["app.example.com:443", "*.example.org:443"],
    "/edges/tcp": ["1.tcp.example.com:12345", "app.example.com:1"],
}
OWN: dict[str, dict[str, Any]] = {"/edges/https": {"terminate_at": "edge"}}
SHOWN: dict[str, dict[str, Any]] = {"/edges/https": {"routes": []}}
UNSET: dict[str, dict[str, Any]] = {
    resource.kind.path: {
        **OWN.get(resource.kind.path, {}),
        **{module.name: None for module in resource.modules},
        **SHOWN.get(resource.kind.path, {}),
    }
    for resource in edges.load_all()
}
KINDS = [resource for resource in edges.load_all() if resource.kind.path in HOSTPORTS]

each_edge = pytest.mark.parametrize("resource", KINDS, ids=lambda resource: resource.kind.path)


def expected_edge(resource: Resource, edge: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Everything that an edge with these fields shows, given its id and time."""
    return {
        "id": edge["id"],
        "uri": f"http://localhost{resource.kind.path}/{edge['id']}",
        "created_at": edge["created_at"],
        "description": "",
        "metadata": "",
        "hostports": [],
        **UNSET[resource.kind.path],
        **fields,
    }


@each_edge
def test_an_edge_is_shown_whole_whether_it_says_nothing_or_null(admin: Client, resource: Resource) -> None:
    nulls = dict.fromkeys(["description", "metadata", "hostports", *UNSET[resource.kind.path].keys() - {"routes"}])
    for unset in ({}, nulls):
        edge = admin.create(resource.kind.path, unset)
        assert edge == expected_edge(resource, edge)


@each_edge
def test_an_empty_list_takes_the_hostports_away(admin: Client, resource: Resource) -> None:
    edge = admin.create(resource.kind.path, {"hostports": HOSTPORTS[resource.kind.path]})
    address = f"{resource.kind.path}/{edge['id']}"
    assert admin.patch(address, {"hostports": None}).json == edge
    assert admin.patch(address, {"hostports": []}).json == expected_edge(resource, edge)
    assert admin.create(resource.kind.path, {"hostports": HOSTPORTS[resource.kind.path]})["id"] != edge["id"]


@each_edge
def test_an_edge_of_one_kind_is_no_edge_of_another(admin: Client, resource: Resource) -> None:
    id = admin.create(resource.kind.path, {})["id"]
    for other in KINDS:
        if other is not resource:
            assert_not_found(admin.get(f"{other.kind.path}/{id}"), other.kind.path)


@each_edge
def test_an_edge_takes_only_its_own_modules(admin: Client, resource: Resource) -> None:
    strange = {
        name: None for other in KINDS for name in UNSET[other.kind.path] if name not in UNSET[resource.kind.path]
    }
    field_names = ", ".join(
        ["description", "metadata", "hostports", *(name for name in UNSET[resource.kind.path] if name != "routes")]
    )
    field_names = field_names.replace("terminate_at", "terminate_at, keep_headers")
    errors = dict.fromkeys(strange, f"is not accepted here; accepted: {field_names}")
    answer = admin.post(resource.kind.path, strange)
    assert (answer.status, answer.json["details"]) == (
        400,
        {**errors, "operation_id": answer.headers["operation-id"]},
    )
    assert admin.get(resource.kind.path).json[resource.kind.array] == []


def test_routes_are_not_set_with_their_edge(admin: Client) -> None:
    field_names = (
        "description, metadata, hostports, terminate_at, keep_headers, ip_restriction, mutual_tls, tls_termination"
    )
    rule = f"is not accepted here; accepted: {field_names}"
    assert_invalid(admin.post("/edges/https", {"routes": []}), {"routes": rule})


def test_where_tls_ends_is_one_of_two(admin: Client) -> None:
    for unset in (None, "", "edge"):
        assert admin.create("/edges/https", {"terminate_at": unset})["terminate_at"] == "edge"
    edge = admin.create("/edges/https", {"terminate_at": "upstream"})
    assert edge["terminate_at"] == "upstream"
    rule = "must be one of 'edge' or 'upstream'"
    assert_invalid(admin.post("/edges/https", {"terminate_at": "agent"}), {"terminate_at": rule})
    address = f"/edges/https/{edge['id']}"
    assert_invalid(admin.patch(address, {"terminate_at": "agent"}), {"terminate_at": rule})
    assert admin.get(address).json == edge
    for unspecified in (None, ""):
        assert admin.patch(address, {"terminate_at": unspecified}).json == edge
    assert admin.patch(address, {"terminate_at": "edge"}).json == {**edge, "terminate_at": "edge"}


def test_an_edge_that_only_modules_know_is_no_edge(admin: Client) -> None:
    edge = admin.create("/edges/tls", {})
    address = f"/edges/tls/{edge['id']}"
    admin.delete(address)
    assert admin.put(f"{address}/backend", {}).status == 200
    for method in ("GET", "PATCH", "DELETE"):
        assert_not_found(admin.send(method, address), "/edges/tls")
    assert_not_found(admin.patch(address, {"description": "x"}), "/edges/tls")
    assert admin.get("/edges/tls").json["tls_edges"] == []
    assert admin.get(f"{address}/backend").json == {"enabled": True, "backend": None}


def test_who_is_not_an_admin_may_do_all_of_it_too(member: Client) -> None:
    for resource in KINDS:
        edge = member.create(resource.kind.path, {})
        assert member.patch(f"{resource.kind.path}/{edge['id']}", {"metadata": "m"}).json == {**edge, "metadata": "m"}
        assert member.delete(f"{resource.kind.path}/{edge['id']}").status == 204
