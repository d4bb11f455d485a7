"""Keys with scopes for single resources, as clients see them: paths, lists, creations, references and certificates."""

from typing import Any

import pytest

from chalicelib import ids
from chalicelib.model.base import kinds
from tests.queries import calls
from tests.refusals import assert_invalid, assert_not_found, assert_refused
from tests.samples import KINDS, Collection, public_key
from tests.transports import Answer, Client

AUTHORITIES, CERTIFICATES = "/ssh_certificate_authorities", "/ssh_user_certificates"
WITHOUT_ID = (
    *("/api_keys", "/audit_events", "/bot_users", "/federated_credentials", "/users"),
    *("/ssh_host_certificates", CERTIFICATES),
)
LISTED = [resource for resource in KINDS if "{" not in resource.kind.path and resource.kind.path not in WITHOUT_ID]


def key(admin: Client, *scopes: str) -> Client:
    """Return a client with a new key of these scopes."""
    return admin.with_token(admin.create("/api_keys", {"scopes": scopes})["token"])


def assert_lacks(answer: Answer, scope: str) -> None:
    assert_refused(answer, 403, "forbidden", f"This API key lacks the scope {scope}.")


def build_request(authority: str, **fields: Any) -> dict[str, Any]:
    return {"ssh_certificate_authority_id": authority, "public_key": public_key(), **fields}


@pytest.mark.parametrize("resource", LISTED, ids=lambda resource: resource.kind.path)
def test_a_list_contains_exactly_the_resources_of_the_scopes_and_is_one_call(admin: Client, resource: Any) -> None:
    collection, path = Collection.of(admin, resource), resource.kind.path
    new_ids = [collection.create()["id"] for _ in range(4)]
    name = path.split("/")[1]
    reader = key(
        admin, *(f"{name}:read@{id}" for id in (new_ids[2], new_ids[0], ids.new(resource.kind.prefix), new_ids[3]))
    )
    reader.get("/me")  # which records that the key is used
    with calls() as made_calls:
        answer = reader.get(path)
    route_reads = ["Query"] if path == "/edges/https" else []  # their routes
    assert made_calls == ["GetItem", "BatchGetItem", *route_reads]
    assert [entry["id"] for entry in answer.json[resource.kind.array]] == [new_ids[3], new_ids[2], new_ids[0]]
    assert answer.json["next_page_uri"] is None
    assert answer.json[resource.kind.array] == [
        entry for entry in admin.get(path).json[resource.kind.array] if entry["id"] != new_ids[1]
    ]
    first = reader.get(f"{path}?limit=2").json
    assert [entry["id"] for entry in first[resource.kind.array]] == [new_ids[3], new_ids[2]]
    second = reader.get(first["next_page_uri"].removeprefix("http://localhost")).json
    assert ([entry["id"] for entry in second[resource.kind.array]], second["next_page_uri"]) == ([new_ids[0]], None)


def test_a_list_of_credentials_has_both_filters(admin: Client, member: Client) -> None:
    own_ids = [admin.create("/ssh_credentials", {"public_key": public_key()})["id"] for _ in range(2)]
    member_credential = member.create("/ssh_credentials", {"public_key": public_key()})["id"]
    reader = key(admin, f"ssh_credentials:read@{own_ids[0]}", f"ssh_credentials:read@{member_credential}")
    entries = reader.get(f"/ssh_credentials?owner_id={admin.user}").json["ssh_credentials"]
    assert [entry["id"] for entry in entries] == [own_ids[0]]


def test_the_first_id_in_the_path_must_be_covered_whether_or_not_it_exists(admin: Client) -> None:
    edge_id, other, absent = (admin.create("/edges/https", {})["id"] for _ in range(3))
    admin.delete(f"/edges/https/{absent}")
    writer = key(admin, f"edges:write@{edge_id}")
    route = {"match": "/", "match_type": "path_prefix"}
    route_id = writer.create(f"/edges/https/{edge_id}/routes", route)["id"]
    assert writer.put(f"/edges/https/{edge_id}/routes/{route_id}/oauth", {"provider": {"google": {}}}).status == 200
    for id in (other, absent):
        assert_lacks(writer.post(f"/edges/https/{id}/routes", route), f"edges:write@{id}")
        assert_lacks(writer.put(f"/edges/https/{id}/tls_termination", {}), f"edges:write@{id}")
        assert_lacks(writer.patch(f"/edges/https/{id}", {}), f"edges:write@{id}")
    assert_lacks(writer.get(f"/edges/https/{edge_id}"), f"edges:read@{edge_id}")
    assert_lacks(writer.get("/edges/https"), "edges:read")
    assert_lacks(writer.post("/edges/https", {}), "edges:create")
    assert_lacks(writer.delete("/edges/https/nothing"), "edges:write")
    assert writer.delete(f"/edges/https/{edge_id}").status == 204
    assert_not_found(writer.patch(f"/edges/https/{edge_id}", {}), "/edges/https")


def test_create_permits_only_creations(admin: Client) -> None:
    creator = key(admin, "backends:create")
    backend_id = creator.create("/backends/http_response", {})["id"]
    assert_lacks(creator.get(f"/backends/http_response/{backend_id}"), f"backends:read@{backend_id}")
    assert_lacks(creator.delete(f"/backends/http_response/{backend_id}"), f"backends:write@{backend_id}")


def test_revoke_permits_only_revocations_of_the_authority(admin: Client) -> None:
    authority, other = (admin.create(AUTHORITIES, {})["id"] for _ in range(2))
    revoker = key(admin, f"ssh_certificate_authorities:revoke@{authority}")
    certificate = admin.create(CERTIFICATES, build_request(authority))["id"]
    revocations = f"{AUTHORITIES}/{authority}/revocations"
    revocation = revoker.create(revocations, {"ssh_user_certificate_id": certificate})["id"]
    missing = f"ssh_certificate_authorities:revoke@{other}"
    assert_lacks(revoker.post(f"{AUTHORITIES}/{other}/revocations", {"serial": "1"}), missing)
    address = f"{revocations}/{revocation}"
    assert_lacks(revoker.delete(address), f"ssh_certificate_authorities:write@{authority}")
    assert_lacks(revoker.get(address), f"ssh_certificate_authorities:read@{authority}")


@pytest.mark.parametrize("path", [CERTIFICATES, "/ssh_host_certificates"])
def test_scopes_for_certificates_name_their_authority(admin: Client, path: str) -> None:
    name = path[1:]
    staging, production = (admin.create(AUTHORITIES, {})["id"] for _ in range(2))
    own_certificate, other = (admin.create(path, build_request(authority)) for authority in (staging, production))
    signer = key(admin, f"{name}:create@{staging}")
    assert signer.post(path, build_request(staging)).status == 201
    for authority in (production, ids.new("sshca")):
        assert_lacks(signer.post(path, build_request(authority)), f"{name}:create@{authority}")
    assert_invalid(signer.post(path, {**build_request(production), "x": 1}), {"x": unknown_field(path)})
    assert_lacks(signer.get(f"{path}/{own_certificate['id']}"), f"{name}:read")
    reader = key(admin, f"{name}:read@{staging}")
    assert reader.get(f"{path}/{own_certificate['id']}").json == own_certificate
    assert_lacks(reader.get(f"{path}/{other['id']}"), f"{name}:read@{production}")
    absent = kinds.identify(own_certificate["id"]).prefix
    assert_not_found(reader.get(f"{path}/{ids.new(absent)}"), path)
    entries = reader.get(path).json[name]
    assert {entry["ssh_certificate_authority_id"] for entry in entries} == {staging}
    assert len(entries) == 2
    page = reader.get(f"{path}?limit=1&owner_id={admin.user}").json
    assert [entry["id"] for entry in page[name]] == [entries[0]["id"]]
    assert reader.get(page["next_page_uri"].removeprefix("http://localhost")).json[name] == [own_certificate]
    writer = key(admin, f"{name}:write@{staging}")
    assert writer.patch(f"{path}/{own_certificate['id']}", {"description": "d"}).json["description"] == "d"
    assert_lacks(writer.patch(f"{path}/{other['id']}", {}), f"{name}:write@{production}")
    assert_lacks(writer.delete(f"{path}/{other['id']}"), f"{name}:write@{production}")
    assert writer.delete(f"{path}/{own_certificate['id']}").status == 204
    assert admin.get(f"{path}/{other['id']}").json == other


def unknown_field(path: str) -> str:
    options = ", critical_options, extensions" if path == CERTIFICATES else ""
    fields = f"ssh_certificate_authority_id, public_key, principals{options}, valid_after, valid_until"
    return f"is not accepted here; accepted: description, metadata, {fields}"


def test_a_body_names_only_what_a_key_with_ids_may_read(admin: Client) -> None:
    edge, tls = admin.create("/edges/tcp", {})["id"], admin.create("/edges/tls", {})["id"]
    backend_id, other = (admin.create("/backends/http_response", {})["id"] for _ in range(2))
    weighted = admin.create("/backends/weighted", {})["id"]
    key_scopes = (
        f"edges:write@{edge}",
        f"edges:write@{tls}",
        f"backends:write@{weighted}",
        f"backends:read@{backend_id}",
        "backends:create",
    )
    writer = key(admin, *key_scopes)
    message = "The API key must not read a resource in the body: it needs the scopes in 'details'."

    def assert_unreadable(answer: Answer, path: str, scope: str) -> None:
        assert_refused(answer, 403, "forbidden", message, {path: f"requires the scope {scope}"})

    backend = f"/edges/tcp/{edge}/backend"
    assert writer.put(backend, {"backend_id": backend_id}).status == 200
    assert_unreadable(writer.put(backend, {"backend_id": other}), "backend_id", f"backends:read@{other}")
    wrapped = {"module": {"backend_id": other}}
    assert_unreadable(writer.put(backend, wrapped), "module.backend_id", f"backends:read@{other}")
    inline = {"backend": {"backend_id": other}}
    assert_unreadable(writer.patch(f"/edges/tcp/{edge}", inline), "backend.backend_id", f"backends:read@{other}")
    weights = {"backends": {backend_id: 1, other: 2}}
    assert_unreadable(
        writer.patch(f"/backends/weighted/{weighted}", weights), f"backends.{other}", f"backends:read@{other}"
    )
    assert_unreadable(writer.post("/backends/weighted", weights), f"backends.{other}", f"backends:read@{other}")
    assert writer.post("/backends/weighted", {"backends": {backend_id: 1}}).status == 201
    authority = ids.new("ca")
    body = {"certificate_authority_ids": [authority]}
    missing = f"certificate_authorities:read@{authority}"
    assert_unreadable(writer.put(f"/edges/tls/{tls}/mutual_tls", body), "certificate_authority_ids.0", missing)
    assert key(admin, "edges:write").put(backend, {"backend_id": other}).status == 200


def test_me_shows_the_scopes_as_they_were_given(admin: Client) -> None:
    key_scopes = [
        "backends:create",
        f"edges:read@{ids.new('edghts')}",
        f"ssh_user_certificates:create@{ids.new('sshca')}",
    ]
    assert key(admin, *key_scopes).get("/me").json["key"]["scopes"] == key_scopes


def test_a_key_gives_only_scopes_that_its_own_cover(admin: Client) -> None:
    edge, other = ids.new("edghts"), ids.new("edghts")
    maker = key(admin, "api_keys:create", f"edges:write@{edge}", "*:read")
    requested_scopes = [f"edges:write@{edge}", f"edges:read@{other}", "backends:read"]
    assert maker.create("/api_keys", {"scopes": requested_scopes})["scopes"] == requested_scopes
    for scope in (f"edges:write@{other}", "edges:write", "edges:create", "api_keys:write", "*"):
        assert maker.post("/api_keys", {"scopes": [scope]}).status == 403


def test_the_scopes_of_a_key_have_at_most_2048_bytes(admin: Client) -> None:
    edge_scopes = [f"edges:read@{ids.new('edghts')}" for _ in range(44)]  # 45 characters each, and a space between two
    assert len(" ".join(edge_scopes)) == 2023
    assert admin.create("/api_keys", {"scopes": [*edge_scopes, "tunnels:read"]})["scopes"] == [
        *edge_scopes,
        "tunnels:read",
    ]
    rule = "must be at most 2048 bytes in total, when joined by spaces"
    assert_invalid(
        admin.post("/api_keys", {"scopes": [*edge_scopes, "certificate_authorities:r"[:-1] + "read"]}), {"scopes": rule}
    )


def test_recent_scopes_wait_for_the_fourth_format(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECORD_FORMAT", "3")
    rule = "must have no id and end with :read or :write, until the operator sets RECORD_FORMAT to 4"
    scopes = ["edges:read", "edges:create", "ssh_certificate_authorities:revoke", f"edges:read@{ids.new('edghts')}"]
    answer = admin.post("/api_keys", {"scopes": scopes})
    assert_invalid(answer, {f"scopes.{index}": rule for index in (1, 2, 3)})
