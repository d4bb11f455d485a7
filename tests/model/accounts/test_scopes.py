"""Scopes of API keys as a table: every form × every endpoint × own, other and absent ids, against the rules."""

from collections.abc import Iterator

import pytest

from chalicelib import ids, routes
from chalicelib.http.endpoints import Endpoint
from chalicelib.model.accounts import scopes
from chalicelib.model.base import kinds

OWN, OTHER, ABSENT = "1" * 27, "2" * 27, "3" * 27  # the last characters of three ids
ENDPOINTS = [endpoint for served in routes.ALL for endpoint in served.endpoints() if endpoint.authorizer]
CERTIFICATES = {"ssh_user_certificates", "ssh_host_certificates"}
NAMED = {  # the prefixes of the ids in the scopes of a collection
    "backends": ("bkdwd", "bkdtg", "bkdhr", "bkdxyz"),
    "certificate_authorities": ("ca",),
    "edges": ("edghts", "edgtls", "edgtcp"),
    "ip_policies": ("ipp",),
    "ip_policy_rules": ("ipr",),
    "reserved_addrs": ("ra",),
    "reserved_domains": ("rd",),
    "ssh_certificate_authorities": ("sshca",),
    "ssh_credentials": ("sshcr",),
    "ssh_host_certificates": ("sshca",),
    "ssh_user_certificates": ("sshca",),
    "tls_certificates": ("cert",),
    "tunnels": ("tn",),
}
CREATED = {*NAMED, "api_keys", "bot_users", "federated_credentials", "users"} - {"tunnels"}
COLLECTIONS = (*NAMED, "account", "api_keys", "audit_events", "bot_users", "federated_credentials", "users")


def plain_forms() -> list[str]:
    rights = [f"{name}:{right}" for name in COLLECTIONS for right in ("read", "write")]
    create_forms = [f"{name}:create" for name in CREATED]
    return ["*", "*:read", *rights, *create_forms, "ssh_certificate_authorities:revoke"]


def forms_with_id(unique: str = OWN) -> list[str]:
    pairs = [(name, f"{prefix}_{unique}") for name, prefixes in NAMED.items() for prefix in prefixes]
    both = [f"{name}:{right}@{id}" for name, id in pairs for right in ("read", "write")]
    create_forms = [f"{name}:create@sshca_{unique}" for name in CERTIFICATES]
    return [*both, *create_forms, f"ssh_certificate_authorities:revoke@sshca_{unique}"]


def allows(scope: str, endpoint: Endpoint, id: str, authority: str) -> bool:
    """Return whether a scope permits a request, by the sentences of the specification.

    `id` is the first id in the path, "" without one; `authority` that of the certificate that the request concerns.
    """
    method, path = endpoint.method, endpoint.path
    if path in ("/me", "/gateways", "/api_keys/self") or scope == "*":
        return True
    if scope == "*:read":
        return method == "GET"
    collection, _, right = scope.partition(":")
    right, separator, scope_id = right.partition("@")
    if path.split("/")[1] != collection:
        return False
    if separator and collection in CERTIFICATES and authority != scope_id:
        return False
    is_list = method == "GET" and not id
    if separator and collection not in CERTIFICATES and id != scope_id and not is_list:
        return False
    if method == "GET":
        return right == "read"
    if right == "create":
        return method == "POST" and not id
    if right == "revoke":
        return path.endswith("/revocations") and method == "POST"
    return right == "write"


def is_permitted(scope: str, endpoint: Endpoint, path: dict[str, str], authority: str) -> bool:
    """Return whether the rules permit a request: before it is read, and once a certificate's authority is known."""
    if scopes.find_missing([scope], endpoint.method, endpoint.path, path):
        return False
    kind = next((kind for kind in kinds.TABLE if kind.path and endpoint.path in (kind.path, kind.item_path)), None)
    is_list = endpoint.method == "GET" and not path
    if is_list or kind is None or kind.path[1:] not in CERTIFICATES:
        return True
    return scopes.covers([scope], scopes.build_authority_scope(endpoint.method, kind, authority))


def requests(endpoint: Endpoint) -> Iterator[tuple[dict[str, str], str]]:
    """Yield the values of the path and the authority of the certificate, for own, other and absent resources."""
    collection = endpoint.path.split("/")[1]
    for unique in (OWN, OTHER, ABSENT):
        collection_path = endpoint.path.partition("/{")[0]
        kind = kinds.find_by_path(collection_path)
        path = {"id": f"{kind.prefix}_{unique}"} if kind and "{" in endpoint.path else {}
        yield path, f"sshca_{unique}" if collection in CERTIFICATES else ""


def test_every_form_permits_exactly_what_it_says() -> None:
    cells = [
        (form, endpoint, path, authority)
        for form in (*plain_forms(), *forms_with_id())
        for endpoint in ENDPOINTS
        for path, authority in requests(endpoint)
    ]
    wrong = [
        (form, endpoint.method, endpoint.path, path, authority)
        for form, endpoint, path, authority in cells
        if is_permitted(form, endpoint, path, authority)
        is not (allows(form, endpoint, path.get("id", ""), authority) or is_list_of_authority(form, endpoint))
    ]
    assert len(cells) > 4000
    assert wrong == []


def is_list_of_authority(scope: str, endpoint: Endpoint) -> bool:
    """Return whether a scope of one authority permits a list of certificates, which is filtered."""
    name, separator, _ = scope.partition("@")
    collection, _, right = name.partition(":")
    is_filtered = bool(separator) and collection in CERTIFICATES and right == "read"
    return is_filtered and (endpoint.method, endpoint.path) == ("GET", f"/{collection}")


def test_the_forms_are_those_of_the_specification() -> None:
    assert sorted(scopes.list_scopes()) == sorted(plain_forms())
    for form in (*plain_forms(), *forms_with_id()):
        assert scopes.check(form) == form
    all_forms = {f"{name}:{right}" for name in COLLECTIONS for right in ("read", "write", "create", "revoke")}
    for form in all_forms - {*plain_forms()}:
        with pytest.raises(ValueError, match="must be '\\*', "):
            scopes.check(form)


@pytest.mark.parametrize(
    "form", ["", "*:write", "*:create", "edges", "edges:delete", "nothing:read", "edges:read:x", "*@x"]
)
def test_a_malformed_scope_names_the_forms(form: str) -> None:
    with pytest.raises(
        ValueError, match="must be '\\*', '\\*:read', <collection>:<right> or <collection>:<right>@<id>"
    ):
        scopes.check(form)


@pytest.mark.parametrize(
    ("form", "rule"),
    [
        *(
            (f"{name}:read@ak_{OWN}", "must not end with @<id>")
            for name in ("api_keys", "users", "audit_events", "account")
        ),
        (f"edges:create@edghts_{OWN}", "must not end with @<id>: edges:create applies to the whole collection"),
        ("edges:read@", "must end with an id of the form edghts_… or edgtls_… or edgtcp_…"),
        (f"edges:read@edghtsrt_{OWN}", "must end with an id of the form edghts_…"),
        (f"ssh_user_certificates:create@sucrt_{OWN}", "must end with an id of the form sshca_…"),
        (f"backends:read@edghts_{OWN}", "must end with an id of the form bkd"),
    ],
)
def test_an_id_belongs_to_the_collection(form: str, rule: str) -> None:
    with pytest.raises(ValueError, match=rule.replace("*", "\\*").replace("[", "\\[")):
        scopes.check(form)


def expected_forms(maker: str) -> set[str]:
    """Return the forms that a key with one scope may give to another key, by the table of the specification."""
    all_forms = {*plain_forms(), *forms_with_id(), *forms_with_id(OTHER)}
    name, separator, id = maker.partition("@")
    collection, _, right = name.partition(":")
    if maker == "*":
        return all_forms
    if maker == "*:read":
        return {form for form in all_forms if form.partition(":")[2].partition("@")[0] == "read"}
    rights = {"write", "create", "revoke"} if right == "write" else {right}
    scope_forms = {f"{collection}:{right}" for right in rights}
    if separator:
        return {form for form in all_forms if form in {f"{scope_form}@{id}" for scope_form in scope_forms}}
    return {form for form in all_forms if form.partition("@")[0] in scope_forms}


def test_a_scope_covers_exactly_what_its_key_may_give() -> None:
    all_forms = {*plain_forms(), *forms_with_id(), *forms_with_id(OTHER)}
    for maker in all_forms:
        assert {form for form in all_forms if scopes.covers([maker], form)} == expected_forms(maker), maker


def test_every_collection_with_a_creation_has_the_right_to_create() -> None:
    collections = {
        endpoint.path.split("/")[1] for endpoint in ENDPOINTS if endpoint.method == "POST" and "{" not in endpoint.path
    }
    assert collections == {form.partition(":")[0] for form in scopes.list_scopes() if form.endswith(":create")}


def test_a_missing_scope_is_the_narrowest() -> None:
    edge = f"edghts_{OWN}"
    routes_path = "/edges/https/{edge_id}/routes/{id}/oauth"
    path = {"edge_id": edge, "id": ids.new("edghtsrt")}
    assert scopes.find_missing(["*:read"], "PUT", routes_path, path) == f"edges:write@{edge}"
    assert scopes.find_missing(["*:read"], "POST", "/edges/https", {}) == "edges:create"
    assert scopes.find_missing(["edges:write"], "GET", "/edges/https", {}) == "edges:read"
    assert scopes.find_missing(["edges:write"], "GET", routes_path, {"edge_id": "a secret"}) == "edges:read"
    revocations = "/ssh_certificate_authorities/{id}/revocations"
    authority = {"id": f"sshca_{OWN}"}
    assert (
        scopes.find_missing(["*:read"], "POST", revocations, authority)
        == f"ssh_certificate_authorities:revoke@sshca_{OWN}"
    )
    assert (
        scopes.build_authority_scope("POST", kinds.SSH_USER_CERTIFICATES, "sshca_1")
        == "ssh_user_certificates:create@sshca_1"
    )


def test_references_need_a_scope_only_for_keys_with_an_id_in_a_scope() -> None:
    backend, authority, certificate = ids.new("bkdwd"), ids.new("ca"), ids.new("cert")
    body = {
        "backend": {"backend_id": backend},
        "backends": {backend: 1},
        "mutual_tls": {"certificate_authority_ids": [authority]},
        "certificate_id": certificate,
        "owner_id": ids.new("usr"),
        "headers": {"backend_id": backend},
    }
    missing = {
        "backend.backend_id": f"backends:read@{backend}",
        f"backends.{backend}": f"backends:read@{backend}",
        "mutual_tls.certificate_authority_ids.0": f"certificate_authorities:read@{authority}",
        "certificate_id": f"tls_certificates:read@{certificate}",
    }
    edge = f"edges:write@edghts_{OWN}"
    assert scopes.find_unreadable([edge], body) == missing
    assert scopes.find_unreadable([edge, "*:read"], body) == {}
    assert scopes.find_unreadable(["edges:write"], body) == {}
    assert scopes.find_unreadable([edge, f"backends:read@{backend}"], body).keys() == {*list(missing)[2:]}
