"""No input makes a 5xx, and every refusal has the one body: bodies, queries and paths that nobody thought of."""

import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from chalicelib import modules
from chalicelib.http.module import Module
from chalicelib.http.resource import EditableResource, Resource
from chalicelib.schema.models import model
from tests.samples import EDITABLE_KINDS, KINDS, Collection, each_editable_kind, request_of
from tests.transports import Answer, Client

FEW = settings(
    max_examples=6,  # of each kind
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],  # a failing example tells enough without being made smaller
    suppress_health_check=[*HealthCheck],
)
SOME = settings(FEW, max_examples=15)
MANY = settings(FEW, max_examples=30)
KSUID = "0" * 27
CODES = {
    400: {"invalid_request", "malformed_json", "unknown_reference"},
    404: {"not_found", "no_such_route"},
    405: {"method_not_allowed"},
    409: {"conflict"},
    413: {"payload_too_large"},
    415: {"unsupported_media_type"},
}

text = st.text(st.characters(exclude_categories=()), max_size=40)  # half characters too
telling = st.sampled_from(
    ["", " ", "\0", "*", "\ud800", "x" * 5000, "é" * 200, "rsa", "ecdsa", "nistp521", "ssh-ed25519 AAAA", "ssh-rsa"]
    + ["2030-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59Z", "10.0.0.0/8", "bind:*", "$" * 99]
    + [f"{prefix}_{KSUID}" for prefix in ("usr", "bot", "sshca", "bkdhr", "ca", "edghts")]
    + ["-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "-----BEGIN PRIVATE KEY-----", "{}", "[" * 500]
)
names = (text | telling).filter(lambda word: "KEY" not in word)  # which are echoed, as the names of fields
numbers = st.integers() | st.floats() | st.sampled_from([0, 1, -1, 2048, 2**31, 2**63, -(2**64), 10**40, 1e400])
scalars = st.none() | st.booleans() | numbers | text | telling
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=9,
)


def assert_answered(answer: Answer) -> None:
    """It is a success, or a refusal of the contract in its whole body."""
    if answer.status < 400:
        return
    body = answer.json
    assert answer.status in CODES, answer.text
    assert body.keys() == {"error_code", "status_code", "msg", "details"}
    assert body["error_code"] in CODES[answer.status]
    assert body["status_code"] == answer.status
    assert isinstance(body["msg"], str)
    assert body["msg"]
    assert all(isinstance(name, str) and isinstance(rule, str) for name, rule in body["details"].items())
    assert body["details"]["operation_id"] == answer.headers["operation-id"]
    answer.text.encode()


def fields(resource: Any) -> list[str]:
    """Return every name that a body of the kind may hold."""
    return sorted(
        {field.alias or name for name, field in model(request_of(resource, "POST")).model_fields.items()}
        | {"id", "colour"}
    )


def encode(body: Any) -> bytes:
    return json.dumps(body).encode()  # NaN and half characters too


@pytest.fixture
def example(collection: Collection) -> dict[str, Any]:
    return collection.body()


@each_editable_kind
@FEW
@given(data=st.data())
def test_any_creation_is_answered(collection: Collection, example: dict[str, Any], data: st.DataObject) -> None:
    field_names = st.sampled_from(fields(collection.resource))
    wrong = data.draw(st.dictionaries(field_names | names, values, max_size=6))
    almost_right = {**example, **data.draw(st.dictionaries(field_names, values, min_size=1, max_size=2))}
    for body in (wrong, almost_right):
        assert_answered(collection.client.post(collection.path, encode(body)))


@pytest.fixture
def address(collection: Collection) -> str:
    return f"{collection.path}/{collection.create()['id']}"


@each_editable_kind
@FEW
@given(data=st.data())
def test_any_change_is_answered(collection: Collection, address: str, data: st.DataObject) -> None:
    body = data.draw(st.dictionaries(st.sampled_from(fields(collection.resource)) | names, values, max_size=3))
    assert_answered(collection.client.patch(address, encode(body)))
    assert_answered(collection.client.get(address))


@MANY
@given(data=st.data(), module=st.sampled_from(modules.load_all()))
def test_any_module_is_answered(admin: Client, data: st.DataObject, module: Module) -> None:
    resource = next(resource for resource in KINDS if resource.kind.item_path == module.home)
    uri = module.path.replace("{id}", f"{resource.kind.prefix}_{KSUID}").replace("{edge_id}", f"edghts_{KSUID}")
    field_names = st.sampled_from(sorted(model(module.shape).model_fields))
    assert_answered(admin.put(uri, encode(data.draw(st.dictionaries(field_names | names, values, max_size=4)))))
    assert_answered(admin.get(uri))


@SOME
@given(resource=st.sampled_from(EDITABLE_KINDS), raw=st.binary(max_size=60) | values.map(encode))
def test_any_bytes_as_a_body_are_answered(admin: Client, resource: EditableResource, raw: bytes) -> None:
    for method, uri in (
        ("POST", resource.kind.path),
        ("PATCH", f"{resource.kind.path}/{resource.kind.prefix}_{KSUID}"),
    ):
        assert_answered(admin.send(method, uri, raw))


@SOME
@given(
    opening=st.sampled_from([b"[", b"{", b'{"metadata":', b'{"backends":{"a":', b'[{"x":[']),
    depth=st.integers(1, 3000),
    closing=st.sampled_from([b"", b"]", b"}", b"1", b'"']),
)
def test_any_depth_of_a_body_is_answered(admin: Client, opening: bytes, depth: int, closing: bytes) -> None:
    assert_answered(admin.post("/backends/weighted", opening * depth + closing * depth))


@MANY
@given(
    resource=st.sampled_from(KINDS),
    query=text | st.lists(st.tuples(st.sampled_from(["limit", "before_id"]) | text, scalars), max_size=3),
)
def test_any_query_is_answered(admin: Client, resource: Resource, query: str | list[tuple[str, Any]]) -> None:
    raw_query = query if isinstance(query, str) else "&".join(f"{name}={value}" for name, value in query)
    for form in (raw_query, quote(raw_query, safe="=&", errors="replace")):
        assert_answered(admin.get(f"{resource.kind.path}?{form}"))


@MANY
@given(resource=st.sampled_from(KINDS), id=text | telling, method=st.sampled_from(["GET", "PATCH", "DELETE"]))
def test_any_id_in_a_path_is_answered(admin: Client, resource: Resource, id: str, method: str) -> None:
    for form in (id, quote(id, safe="", errors="replace"), f"{resource.kind.prefix}_{id}"):
        assert_answered(admin.send(method, f"{resource.kind.path}/{form}"))


@SOME
@given(path=text, method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "BREW"]))
def test_any_path_is_answered(admin: Client, path: str, method: str) -> None:
    assert_answered(admin.send(method, f"/{path}"))


@SOME
@given(name=st.sampled_from(["Authorization", "Service_Version", "Content_Type", "Host"]), value=text | telling)
def test_any_header_is_answered(admin: Client, name: str, value: str) -> None:
    answer = admin.send("POST", "/ssh_certificate_authorities", {"description": "d"}, **{name: value})
    assert answer.status in {201, 400, 401, 415}
    assert answer.status == 201 or answer.json.keys() == {"error_code", "status_code", "msg", "details"}
