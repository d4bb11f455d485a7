"""The translation of the OpenAPI document into Terraform's resources."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from chalicelib.documents import openapi
from infra.build.terraform import kinds as translation
from tunneledge_provider.kinds import Attribute, Kind

DOCUMENT = json.loads(openapi.FILE.read_text(encoding="utf-8"))
RESERVED = {"connection", "count", "depends_on", "for_each", "lifecycle", "provider", "provisioner"}  # by Terraform


def walk_attributes(attributes: tuple[Attribute, ...], above: str = "") -> Iterator[tuple[str, Attribute]]:
    """Yield all attributes with their dotted paths."""
    for attribute in attributes:
        path = f"{above}{attribute.name}"
        yield path, attribute
        yield from walk_attributes(attribute.fields, f"{path}.")


def flags(attribute: Attribute) -> str:
    names = ("required", "optional", "computed", "sensitive", "fixed", "hidden", "stable")
    of = f" of {attribute.of}" if attribute.of else ""
    return " ".join([attribute.type + of, *(name for name in names if getattr(attribute, name))])


def test_everything_that_is_created_is_a_resource(kinds: Mapping[str, Kind]) -> None:
    names = {
        methods["post"]["operationId"].removeprefix("create_")
        for methods in DOCUMENT["paths"].values()
        if methods.get("post", {}).get("operationId", "").startswith("create_")
    }
    assert kinds.keys() == names


def test_every_module_of_the_document_is_an_attribute_that_its_delete_removes(kinds: Mapping[str, Kind]) -> None:
    modules = {path for path, methods in DOCUMENT["paths"].items() if "put" in methods and "{" in path}
    attributes = {
        f"{next(path for path in DOCUMENT['paths'] if path == kind.item or _is_item(path, kind))}/{segment}"
        for kind in kinds.values()
        for segment in kind.removals.values()
    }
    assert modules <= attributes


def _is_item(path: str, kind: Kind) -> bool:
    """Return whether a path is the item's, whatever its parameters are called."""
    steps, item = path.split("/"), kind.item.split("/")
    return len(steps) == len(item) and all(a == b or (a[:1], b[:1]) == ("{", "{") for a, b in zip(steps, item))  # noqa: B905


def test_names_are_none_that_terraform_reserves(kinds: Mapping[str, Kind]) -> None:
    assert {attribute.name for kind in kinds.values() for attribute in kind.attributes} & RESERVED == set()


def test_secrets_are_sensitive(kinds: Mapping[str, Kind]) -> None:
    secrets = {
        f"{kind.name}.{path}"
        for kind in kinds.values()
        for path, attribute in walk_attributes(kind.attributes)
        if attribute.sensitive
    }
    providers = ("amazon", "facebook", "github", "gitlab", "google", "linkedin", "microsoft", "twitch")
    assert secrets >= {
        "api_key.token",
        "tls_certificate.private_key_pem",
        "https_edge_route.webhook_verification.secret",
        *(f"https_edge_route.oauth.provider.{provider}.client_secret" for provider in providers),
    }
    names = {secret for secret in secrets if not secret.endswith(("token", "private_key_pem", "secret", "password"))}
    assert names == set()


def test_what_is_named_like_a_secret_is_sensitive(kinds: Mapping[str, Kind]) -> None:
    """Mark a new secret by `fields.SECRET`. The one exception is public, as its description says."""
    names = ("password", "private_key", "private_key_pem", "secret", "client_secret", "token")
    plain_fields = {
        f"{kind.name}.{path}"
        for kind in kinds.values()
        for path, attribute in walk_attributes(kind.attributes)
        if attribute.name in names and not attribute.sensitive
    }
    assert plain_fields == {"federated_credential.sign_in.client_secret"}


@pytest.mark.parametrize(
    ("kind", "path", "expected"),
    [
        ("api_key", "scopes", "list of string optional computed fixed"),
        ("api_key", "limits", "object optional fixed"),
        ("api_key", "limits.requests_per_second", "number required"),
        ("api_key", "token", "string computed sensitive"),
        ("federated_credential", "claims", "json required"),
        ("http_response_backend", "headers", "map of string optional computed"),
        ("weighted_backend", "backends", "map of number optional computed"),
        ("ssh_user_certificate", "critical_options", "map of string optional computed fixed"),
        ("ssh_certificate_authority", "key_size", "number optional computed fixed"),
        ("ssh_certificate_authority", "policy.user.max_lifetime", "number optional computed"),
        ("tls_certificate", "private_key_pem", "string required sensitive fixed hidden"),
        ("tls_certificate", "subject_alternative_names.dns_names", "list of string computed stable"),
        ("reserved_domain", "verification.value", "string computed stable"),
        ("reserved_domain", "cname_target", "string computed"),
        ("https_edge", "ip_restriction.ip_policy_ids", "list of string required"),
        ("https_edge_route", "edge_id", "string required fixed"),
        ("https_edge_route", "backend", "object optional"),
        ("user", "active", "bool optional computed"),
    ],
)
def test_the_type_of_an_attribute(kinds: Mapping[str, Kind], kind: str, path: str, expected: str) -> None:
    assert flags(dict(walk_attributes(kinds[kind].attributes))[path]) == expected


def test_paths_below_another_resource_name_its_id(kinds: Mapping[str, Kind]) -> None:
    revocation = kinds["ssh_revocation"]
    state = {"ssh_certificate_authority_id": "sshca_1", "id": "a/b"}
    assert revocation.collection_path(state) == "/ssh_certificate_authorities/sshca_1/revocations"
    assert revocation.item_path(state) == "/ssh_certificate_authorities/sshca_1/revocations/a%2Fb"
    assert revocation.keys == ("ssh_certificate_authority_id", "id")


def test_a_module_that_only_its_own_path_shows_is_separate(kinds: Mapping[str, Kind]) -> None:
    separate = {kind.name: kind.modules for kind in kinds.values() if kind.modules}
    assert separate.pop("ssh_certificate_authority") == ("policy",)
    assert all("ip_restriction" in modules for modules in separate.values())


def test_what_a_delete_removes_without_a_put_is_a_part(kinds: Mapping[str, Kind]) -> None:
    parts = {kind.name: kind.parts for kind in kinds.values() if kind.parts}
    assert parts == {"reserved_domain": ("certificate_id", "certificate_management_policy")}


def test_lists_of_other_resources_are_left_out(kinds: Mapping[str, Kind]) -> None:
    assert "routes" not in dict(walk_attributes(kinds["https_edge"].attributes))
    assert "tunnels" not in dict(walk_attributes(kinds["tunnel_group_backend"].attributes))


def test_a_data_source_requires_its_keys_only(kinds: Mapping[str, Kind]) -> None:
    for kind in kinds.values():
        configured = {attribute.name for _, attribute in walk_attributes(kind.data_source) if attribute.is_configurable}
        assert configured == set(kind.keys)
    assert [attribute.name for attribute in kinds["tcp_edge"].status_source][:3] == ["id", "wait_seconds", "state"]
    assert kinds["api_key"].status_source == ()


def test_a_list_of_objects_and_references_without_a_request() -> None:
    """A document with what the present one does not have: objects in a list of a request."""
    credential = {"type": "object", "properties": {"username": {"type": "string"}, "password": _PASSWORD}}
    module = {"type": "object", "properties": {"credentials": {"type": "array", "items": credential}}}
    thing: dict[str, Any] = {"type": "object", "properties": {"id": {"type": "string"}, "auth": module}}
    content = {"content": {"application/json": {"schema": thing}}}
    operation = {"operationId": "create_thing", "requestBody": content, "responses": {"201": content}}
    document = {"paths": {"/things": {"post": operation}, "/things/{id}": {"get": {}, "delete": {}}}}
    (kind,) = translation.translate(document)
    auth = next(attribute for attribute in kind["attributes"] if attribute["name"] == "auth")
    (credentials,) = auth["fields"]
    assert credentials["type"] == "objects"
    assert [(field["name"], field.get("sensitive", False)) for field in credentials["fields"]] == [
        ("username", False),
        ("password", True),
    ]


_PASSWORD = {"type": "string", "format": "password"}
