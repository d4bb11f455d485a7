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


def asking(authority: str, **fields: Any) -> dict[str, Any]:
    return {"ssh_certificate_authority_id": authority, "public_key": public_key(), **fields}


@pytest.mark.parametrize("resource", LISTED, ids=lambda resource: resource.kind.path)
def test_a_list_contains_exactly_the_resources_of_the_scopes_and_is_one_call(admin: Client, resource: Any) -> None:
    collection, path = Collection.of(admin, resource), resource.kind.path
    made = [collection.one()["id"] for _ in range(4)]
    name = path.split("/")[1]
    reader = key(admin, *(f"{name}:read@{id}" for id in (made[2], made[0], ids.new(resource.kind.prefix), made[3])))
    reader.get("/me")  # which records that the key is used
    with calls() as made_calls:
        listed = reader.get(path)
    others = ["Query"] if path == "/edges/https" else []  # their routes
    assert made_calls == ["GetItem", "BatchGetItem", *others]
    assert [entry["id"] for entry in listed.json[resource.kind.array]] == [made[3], made[2], made[0]]
    assert listed.json["next_page_uri"] is None
    assert listed.json[resource.kind.array] == [
        it for it in admin.get(path).json[resource.kind.array] if it["id"] != made[1]
    ]
    first = reader.get(f"{path}?limit=2").json
    assert [entry["id"] for entry in first[resource.kind.array]] == [made[3], made[2]]
    rest = reader.get(first["next_page_uri"].removeprefix("http://localhost")).json
    assert ([entry["id"] for entry in rest[resource.kind.array]], rest["next_page_uri"]) == ([made[0]], None)


def test_a_list_of_credentials_has_both_filters(admin: Client, member: Client) -> None:
    own = [admin.create("/ssh_credentials", {"public_key": public_key()})["id"] for _ in range(2)]
    theirs = member.create("/ssh_credentials", {"public_key": public_key()})["id"]
    reader = key(admin, f"ssh_credentials:read@{own[0]}", f"ssh_credentials:read@{theirs}")
    listed = reader.get(f"/ssh_credentials?owner_id={admin.user}").json["ssh_credentials"]
    assert [entry["id"] for entry in listed] == [own[0]]


def test_the_first_id_in_the_path_must_be_covered_whether_or_not_it_exists(admin: Client) -> None:
    own, other, absent = (admin.create("/edges/https", {})["id"] for _ in range(3))
    admin.delete(f"/edges/https/{absent}")
    writer = key(admin, f"edges:write@{own}")
    route = {"match": "/", "match_type": "path_prefix"}
    made = writer.create(f"/edges/https/{own}/routes", route)["id"]
    assert writer.put(f"/edges/https/{own}/routes/{made}/oauth", {"provider": {"google": {}}}).status == 200
    for id in (other, absent):
        assert_lacks(writer.post(f"/edges/https/{id}/routes", route), f"edges:write@{id}")
        assert_lacks(writer.put(f"/edges/https/{id}/tls_termination", {}), f"edges:write@{id}")
        assert_lacks(writer.patch(f"/edges/https/{id}", {}), f"edges:write@{id}")
    assert_lacks(writer.get(f"/edges/https/{own}"), f"edges:read@{own}")
    assert_lacks(writer.get("/edges/https"), "edges:read")
    assert_lacks(writer.post("/edges/https", {}), "edges:create")
    assert_lacks(writer.delete("/edges/https/nothing"), "edges:write")
    assert writer.delete(f"/edges/https/{own}").status == 204
    assert_not_found(writer.patch(f"/edges/https/{own}", {}), "/edges/https")


def test_create_permits_only_creations(admin: Client) -> None:
    creator = key(admin, "backends:create")
    made = creator.create("/backends/http_response", {})["id"]
    assert_lacks(creator.get(f"/backends/http_response/{made}"), f"backends:read@{made}")
    assert_lacks(creator.delete(f"/backends/http_response/{made}"), f"backends:write@{made}")


def test_revoke_permits_only_revocations_of_the_authority(admin: Client) -> None:
    own, other = (admin.create(AUTHORITIES, {})["id"] for _ in range(2))
    revoker = key(admin, f"ssh_certificate_authorities:revoke@{own}")
    certificate = admin.create(CERTIFICATES, asking(own))["id"]
    made = revoker.create(f"{AUTHORITIES}/{own}/revocations", {"ssh_user_certificate_id": certificate})["id"]
    missing = f"ssh_certificate_authorities:revoke@{other}"
    assert_lacks(revoker.post(f"{AUTHORITIES}/{other}/revocations", {"serial": "1"}), missing)
    address = f"{AUTHORITIES}/{own}/revocations/{made}"
    assert_lacks(revoker.delete(address), f"ssh_certificate_authorities:write@{own}")
    assert_lacks(revoker.get(address), f"ssh_certificate_authorities:read@{own}")


@pytest.mark.parametrize("path", [CERTIFICATES, "/ssh_host_certificates"])
def test_scopes_for_certificates_name_their_authority(admin: Client, path: str) -> None:
    name = path[1:]
    staging, production = (admin.create(AUTHORITIES, {})["id"] for _ in range(2))
    own, other = (admin.create(path, asking(authority)) for authority in (staging, production))
    signer = key(admin, f"{name}:create@{staging}")
    assert signer.post(path, asking(staging)).status == 201
    for authority in (production, ids.new("sshca")):
        assert_lacks(signer.post(path, asking(authority)), f"{name}:create@{authority}")
    assert_invalid(signer.post(path, {**asking(production), "x": 1}), {"x": unknown_field(path)})
    assert_lacks(signer.get(f"{path}/{own['id']}"), f"{name}:read")
    reader = key(admin, f"{name}:read@{staging}")
    assert reader.get(f"{path}/{own['id']}").json == own
    assert_lacks(reader.get(f"{path}/{other['id']}"), f"{name}:read@{production}")
    absent = kinds.of(own["id"]).prefix
    assert_not_found(reader.get(f"{path}/{ids.new(absent)}"), path)
    listed = reader.get(path).json[name]
    assert {entry["ssh_certificate_authority_id"] for entry in listed} == {staging}
    assert len(listed) == 2
    page = reader.get(f"{path}?limit=1&owner_id={admin.user}").json
    assert [entry["id"] for entry in page[name]] == [listed[0]["id"]]
    assert reader.get(page["next_page_uri"].removeprefix("http://localhost")).json[name] == [own]
    writer = key(admin, f"{name}:write@{staging}")
    assert writer.patch(f"{path}/{own['id']}", {"description": "d"}).json["description"] == "d"
    assert_lacks(writer.patch(f"{path}/{other['id']}", {}), f"{name}:write@{production}")
    assert_lacks(writer.delete(f"{path}/{other['id']}"), f"{name}:write@{production}")
    assert writer.delete(f"{path}/{own['id']}").status == 204
    assert admin.get(f"{path}/{other['id']}").json == other


def unknown_field(path: str) -> str:
    options = ", critical_options, extensions" if path == CERTIFICATES else ""
    fields = f"ssh_certificate_authority_id, public_key, principals{options}, valid_after, valid_until"
    return f"is not accepted here; accepted: description, metadata, {fields}"


def test_a_body_names_only_what_a_key_with_ids_may_read(admin: Client) -> None:
    edge, tls = admin.create("/edges/tcp", {})["id"], admin.create("/edges/tls", {})["id"]
    own, other = (admin.create("/backends/http_response", {})["id"] for _ in range(2))
    weighted = admin.create("/backends/weighted", {})["id"]
    held = (
        f"edges:write@{edge}",
        f"edges:write@{tls}",
        f"backends:write@{weighted}",
        f"backends:read@{own}",
        "backends:create",
    )
    writer = key(admin, *held)
    refused = "The body names a resource that this API key must not read."

    def assert_unreadable(answer: Answer, path: str, scope: str) -> None:
        assert_refused(answer, 403, "forbidden", refused, {path: f"requires the scope {scope}"})

    backend = f"/edges/tcp/{edge}/backend"
    assert writer.put(backend, {"backend_id": own}).status == 200
    assert_unreadable(writer.put(backend, {"backend_id": other}), "backend_id", f"backends:read@{other}")
    wrapped = {"module": {"backend_id": other}}
    assert_unreadable(writer.put(backend, wrapped), "module.backend_id", f"backends:read@{other}")
    inline = {"backend": {"backend_id": other}}
    assert_unreadable(writer.patch(f"/edges/tcp/{edge}", inline), "backend.backend_id", f"backends:read@{other}")
    weights = {"backends": {own: 1, other: 2}}
    assert_unreadable(
        writer.patch(f"/backends/weighted/{weighted}", weights), f"backends.{other}", f"backends:read@{other}"
    )
    assert_unreadable(writer.post("/backends/weighted", weights), f"backends.{other}", f"backends:read@{other}")
    assert writer.post("/backends/weighted", {"backends": {own: 1}}).status == 201
    authority = ids.new("ca")
    body = {"certificate_authority_ids": [authority]}
    missing = f"certificate_authorities:read@{authority}"
    assert_unreadable(writer.put(f"/edges/tls/{tls}/mutual_tls", body), "certificate_authority_ids.0", missing)
    assert key(admin, "edges:write").put(backend, {"backend_id": other}).status == 200


def test_me_shows_the_scopes_as_they_were_given(admin: Client) -> None:
    held = ["backends:create", f"edges:read@{ids.new('edghts')}", f"ssh_user_certificates:create@{ids.new('sshca')}"]
    assert key(admin, *held).get("/me").json["key"]["scopes"] == held


def test_a_key_gives_only_scopes_that_its_own_cover(admin: Client) -> None:
    edge, other = ids.new("edghts"), ids.new("edghts")
    maker = key(admin, "api_keys:create", f"edges:write@{edge}", "*:read")
    given = [f"edges:write@{edge}", f"edges:read@{other}", "backends:read"]
    assert maker.create("/api_keys", {"scopes": given})["scopes"] == given
    for scope in (f"edges:write@{other}", "edges:write", "edges:create", "api_keys:write", "*"):
        assert maker.post("/api_keys", {"scopes": [scope]}).status == 403


def test_the_scopes_of_a_key_have_at_most_2048_bytes(admin: Client) -> None:
    most = [f"edges:read@{ids.new('edghts')}" for _ in range(44)]  # 45 characters each, and a space between two
    assert len(" ".join(most)) == 2023
    assert admin.create("/api_keys", {"scopes": [*most, "tunnels:read"]})["scopes"] == [*most, "tunnels:read"]
    rule = "must be at most 2048 bytes together, joined by spaces"
    assert_invalid(
        admin.post("/api_keys", {"scopes": [*most, "certificate_authorities:r"[:-1] + "read"]}), {"scopes": rule}
    )


def test_recent_scopes_wait_for_the_fourth_format(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECORD_FORMAT", "3")
    rule = "must have no id and end with :read or :write, until the operator sets RECORD_FORMAT to 4"
    scopes = ["edges:read", "edges:create", "ssh_certificate_authorities:revoke", f"edges:read@{ids.new('edghts')}"]
    refused = admin.post("/api_keys", {"scopes": scopes})
    assert_invalid(refused, {f"scopes.{place}": rule for place in (1, 2, 3)})
