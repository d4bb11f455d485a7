"""Modules inline in their edge or route: set, changed and unset with it, all or nothing: it is never without."""

from typing import Any

from chalicelib import edges, ids
from chalicelib.schema.models import model
from tests.modules.samples import SAMPLES, each_module
from tests.refusals import assert_invalid
from tests.samples import Collection
from tests.transports import Client

EDGES = "/edges/https"
UPSTREAM = "must be null if TLS ends upstream"
UNSET = "must be one of '1.0', '1.1', '1.2' or '1.3'"


def collection_of(client: Client, module: Any) -> Collection:
    """Return the client's edges or routes of the kind that holds the module."""
    return Collection.of(
        client, next(resource for resource in edges.load_all() if resource.kind.item_path == module.home)
    )


@each_module
def test_a_module_can_be_created_with_its_holder(admin: Client, module: Any) -> None:
    collection = collection_of(admin, module)
    for sample in SAMPLES[module.path]:
        resource = collection.create(**{module.name: sample.request})
        assert resource[module.name] == sample.response
        assert collection.read(resource["id"]) == resource
        assert resource in collection.entries()
        assert admin.get(f"{collection.path}/{resource['id']}/{module.name}").json == sample.response


@each_module
def test_a_change_sets_and_replaces_a_module_and_never_takes_it_away(admin: Client, module: Any) -> None:
    collection, (full, least) = collection_of(admin, module), SAMPLES[module.path]
    before = collection.create(description="d")
    address = f"{collection.path}/{before['id']}"
    pairs = ((None, None), (full.request, full.response), (least.request, least.response), (None, least.response))
    for request, response in (*pairs, (full.request, full.response)):
        answer = admin.patch(address, {module.name: request})
        assert (answer.status, answer.json) == (200, {**before, module.name: response})
        assert collection.read(before["id"]) == {**before, module.name: response}
    assert admin.patch(address, {"description": "d"}).json == {**before, module.name: full.response}
    renamed = {**before, module.name: full.response, "description": "new"}
    assert admin.patch(address, {module.name: None, "description": "new"}).json == renamed
    assert admin.get(f"{address}/{module.name}").json == full.response
    assert admin.delete(f"{address}/{module.name}").status == 204
    assert admin.patch(address, {module.name: None}).json == {**before, "description": "new"}


@each_module
def test_a_fault_in_a_module_is_named_by_its_dotted_path(admin: Client, module: Any) -> None:
    collection = collection_of(admin, module)
    request = collection.body(**{module.name: {**SAMPLES[module.path][1].request, "enabled": "yes", "colour": "red"}})
    field_names = ", ".join(model(module.shape).model_fields)
    errors = {
        f"{module.name}.enabled": "must be true or false",
        f"{module.name}.colour": f"is not accepted here; accepted: {field_names}",
    }
    assert_invalid(admin.post(collection.path, request), errors)
    assert collection.entries() == []
    before = collection.create()
    change = {module.name: request[module.name], "description": "new"}
    assert_invalid(admin.patch(f"{collection.path}/{before['id']}", change), errors)
    assert collection.read(before["id"]) == before
    answer = admin.patch(f"{collection.path}/{before['id']}", {module.name: "on"})
    assert_invalid(answer, {module.name: "must be an object"})


def test_a_page_of_edges_with_large_modules_is_short_and_leads_on(admin: Client) -> None:
    largest = "{}".ljust(128 * 1024)
    tcp_edges = [admin.create("/edges/tcp", {"traffic_policy": {"value": largest}}) for _ in range(10)]
    first = admin.get("/edges/tcp")
    assert len(first.text) < 2**20
    assert first.json["next_page_uri"] is not None
    assert list(admin.all("/edges/tcp", "tcp_edges")) == tcp_edges[::-1]


def test_faults_far_inside_are_named_too(admin: Client) -> None:
    path = f"{EDGES}/{admin.create(EDGES, {})['id']}/routes"
    request = {
        "match_type": "exact_path",
        "match": "/",
        "oauth": {"provider": {"github": {"teams": ["acme/ops", "ops"]}}},
        "user_agent_filter": {"deny": ["("]},
    }
    errors = {
        "oauth.provider.github.teams.1": "must be of the form <org-slug>/<team-slug>",
        "user_agent_filter.deny.0": "must be a valid RE2 regular expression: missing ): (",
    }
    assert_invalid(admin.post(path, request), errors)
    assert admin.get(path).json["routes"] == []


def test_a_refused_creation_holds_no_hostport(admin: Client) -> None:
    request = {"hostports": ["app.example.com:443"], "tls_termination": {"min_version": "1.4"}}
    assert_invalid(admin.post(EDGES, request), {"tls_termination.min_version": UNSET})
    assert admin.get(EDGES).json["https_edges"] == []
    assert admin.create(EDGES, {"hostports": ["app.example.com:443"]})["tls_termination"] is None


def test_a_taken_hostport_creates_no_module_either(admin: Client) -> None:
    admin.create("/edges/https", {"hostports": ["app.example.com:443"]})
    request = {"hostports": ["app.example.com:443"], "backend": {"backend_id": ids.new("bkdwd")}}
    assert admin.post("/edges/tls", request).status == 409
    assert admin.get("/edges/tls").json["tls_edges"] == []
    edge = admin.create("/edges/tls", {})
    assert admin.patch(f"/edges/tls/{edge['id']}", request).status == 409
    assert admin.get(f"/edges/tls/{edge['id']}").json == edge
    assert admin.get(f"/edges/tls/{edge['id']}/backend").status == 404


def test_several_modules_are_set_at_once_and_apart(admin: Client) -> None:
    backend, authority = ids.new("bkdwd"), ids.new("ca")
    request = {"backend": {"backend_id": backend}, "mutual_tls": {"certificate_authority_ids": [authority]}}
    edge = admin.create("/edges/tls", request)
    assert edge["backend"]["backend"]["id"] == backend
    assert edge["mutual_tls"]["certificate_authorities"][0]["id"] == authority
    address = f"/edges/tls/{edge['id']}"
    assert admin.delete(f"{address}/backend").status == 204
    assert admin.patch(address, {"backend": None, "mutual_tls": None}).json == {**edge, "backend": None}
    assert admin.put(f"{address}/backend", request["backend"]).json == edge["backend"]
    assert admin.delete(f"{address}/mutual_tls").status == 204
    assert admin.get(address).json == {**edge, "mutual_tls": None}


def test_upstream_and_a_version_cannot_be_created_together(admin: Client) -> None:
    request = {"terminate_at": "upstream", "tls_termination": {"min_version": "1.2"}}
    assert_invalid(admin.post(EDGES, request), {"tls_termination.min_version": UPSTREAM})
    assert admin.get(EDGES).json["https_edges"] == []
    edge = admin.create(EDGES, {"terminate_at": "upstream", "tls_termination": {"min_version": None}})
    assert edge["terminate_at"] == "upstream"
    assert edge["tls_termination"] == {"enabled": True, "terminate_at": "upstream", "min_version": None}


def test_upstream_and_a_version_cannot_come_together_by_changes(admin: Client) -> None:
    edge = admin.create(EDGES, {"tls_termination": {"min_version": "1.2"}})
    address = f"{EDGES}/{edge['id']}"
    error = {"tls_termination.min_version": UPSTREAM}
    assert_invalid(admin.patch(address, {"terminate_at": "upstream"}), error)
    assert_invalid(admin.patch(address, {"terminate_at": "upstream", "tls_termination": {"min_version": "1.3"}}), error)
    assert admin.get(address).json == edge
    moved = admin.patch(address, {"terminate_at": "upstream", "tls_termination": {"enabled": False}}).json
    module = {"enabled": False, "terminate_at": "upstream", "min_version": None}
    assert moved == {**edge, "terminate_at": "upstream", "tls_termination": module}
    assert_invalid(admin.patch(address, {"tls_termination": {"min_version": "1.2"}}), error)
    assert_invalid(admin.put(f"{address}/tls_termination", {"min_version": "1.2"}), {"min_version": UPSTREAM})
    assert admin.get(address).json == moved
    body = admin.patch(address, {"terminate_at": "edge", "tls_termination": {"min_version": "1.2"}}).json
    assert body == edge


def test_a_version_that_goes_lets_tls_end_upstream(admin: Client) -> None:
    edge = admin.create(EDGES, {"tls_termination": {"min_version": "1.2"}})
    address = f"{EDGES}/{edge['id']}"
    upstream = {"terminate_at": "upstream", "tls_termination": None}
    assert_invalid(admin.patch(address, upstream), {"tls_termination.min_version": UPSTREAM})
    assert admin.delete(f"{address}/tls_termination").status == 204
    assert admin.patch(address, upstream).json == {**edge, **upstream}


def test_where_tls_ends_may_be_repeated_in_the_module_but_not_changed(admin: Client) -> None:
    rule = "must be 'edge', like terminate_at of the edge: change the edge instead"
    error = {"tls_termination.terminate_at": rule}
    assert_invalid(admin.post(EDGES, {"tls_termination": {"terminate_at": "upstream"}}), error)
    edge = admin.create(EDGES, {"tls_termination": {"terminate_at": "edge"}})
    address = f"{EDGES}/{edge['id']}"
    assert_invalid(admin.patch(address, {"tls_termination": {"terminate_at": "upstream"}}), error)
    assert admin.get(address).json == edge
    moved = admin.patch(address, {"terminate_at": "upstream", "tls_termination": {"terminate_at": "upstream"}}).json
    module = {"enabled": True, "terminate_at": "upstream", "min_version": None}
    assert moved == {**edge, "terminate_at": "upstream", "tls_termination": module}
