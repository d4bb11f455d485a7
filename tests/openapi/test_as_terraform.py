"""The requests of a Terraform provider, for every kind and module: a plan after them has nothing to do.

A provider compares what its user wrote with what the API answers, field by field. What differs is a drift, which it
would mend on every run; each that there is stands here, and why.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from chalicelib import modules
from chalicelib.http.module import Module
from infra.build.openapi import examples
from infra.build.openapi.names import Operation
from tests.modules.samples import OF_EDGES, SAMPLES, anywhere
from tests.openapi.test_examples import creation, each_change, example, here, known
from tests.samples import FRESH
from tests.tolerance import DOCUMENT
from tests.transports import Client

__all__ = ["known"]  # the fixture

NOT_IN_THE_TABLE = "the specification's table of the response does not have it: leave it out, or ignore its changes"
# What was written and comes back under another name, or not at all: by schema and field.
DRIFTS = {
    "SSHCertificateAuthorityCreate.private_key_type": "the response says it as key_type",
    "SSHCertificateAuthorityCreate.elliptic_curve": NOT_IN_THE_TABLE,
    "SSHCertificateAuthorityCreate.key_size": NOT_IN_THE_TABLE,
    "TLSCertificateCreate.private_key_pem": "a secret, which no response holds",
    "HTTPSEdgeRouteBackendReplace.backend_id": "the response has a Ref: backend.id",
    "TLSEdgeBackendReplace.backend_id": "the response has a Ref: backend.id",
    "TCPEdgeBackendReplace.backend_id": "the response has a Ref: backend.id",
    "TLSEdgeMutualTLSReplace.certificate_authority_ids": "the response has Refs: certificate_authorities[].id",
}
# What comes back in another form that means the same, as the conventions tell: what was written, and what is answered.
FORMS: tuple[tuple[str, str, Any, Any], ...] = (
    ("/edges/https", "hostports", ["App.Example.com:443"], ["app.example.com:443"]),
    ("/edges/tcp", "hostports", ["App.Example.com:22"], ["app.example.com:22"]),
    ("/api_keys", "expires_at", "2100-01-01T01:00:00.5+01:00", "2100-01-01T00:00:00Z"),
    ("/backends/http_response", "status_code", None, 200),
    ("/backends/weighted", "description", None, ""),
)

State = Mapping[str, Any]


def plan(schema: str, written: Mapping[str, Any], state: State) -> set[str]:
    """The fields that a provider would change: what was written and is not so. What was not, it takes as it comes."""
    found: set[str] = set()
    for name, value in written.items():
        held, shown = DOCUMENT["components"]["schemas"][schema]["properties"][name].get("allOf"), state.get(name)
        if held and value is not None and shown is not None:
            found |= plan(held[0]["$ref"].rpartition("/")[2], value, shown)
        elif value != shown:
            found.add(f"{schema}.{name}")
    return found


def unexplained(schema: str, written: Mapping[str, Any], state: State) -> set[str]:
    return plan(schema, written, state) - DRIFTS.keys()


def name_of(side: Mapping[str, Any]) -> str:
    return str(side["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2])


@each_change
def test_a_kind_is_created_read_changed_imported_and_destroyed(admin: Client, known: dict[str, str], path: str) -> None:
    home, create = creation(path, known)
    schema, written = name_of(create), here(example(create), known)
    state = admin.create(home, written)
    address = f"{home}/{state['id']}"
    assert unexplained(schema, written, state) == set()
    assert unexplained(schema, written, admin.get(address).json) == set(), (
        "also after an import: its id is all it knows"
    )

    change = here(example(DOCUMENT["paths"][path]["patch"]["requestBody"]), known)
    written |= change
    nulls = dict.fromkeys(found_fields(path) - change.keys())  # as one provider sends what did not change
    assert unexplained(schema, written, admin.patch(address, {**nulls, **change, "id": state["id"]}).json) == set()
    assert unexplained(schema, written, admin.get(address).json) == set()

    assert admin.delete(address).status == 204
    assert (admin.get(address).status, admin.delete(address).status) == (404, 404)


def found_fields(path: str) -> set[str]:
    schema = name_of(DOCUMENT["paths"][path]["patch"]["requestBody"])
    return {*DOCUMENT["components"]["schemas"][schema]["properties"]}


@pytest.mark.parametrize("module", OF_EDGES, ids=lambda module: module.path)
def test_a_module_is_set_read_replaced_and_destroyed(admin: Client, module: Module) -> None:
    address = anywhere(module)
    schema = Operation.of(module.endpoints()[0]).request_schema
    for sample in SAMPLES[module.path]:
        assert unexplained(schema, sample.request, admin.put(address, {"module": sample.request}).json) == set()
        assert unexplained(schema, sample.request, admin.get(address).json) == set()
    assert admin.delete(address).status == 204
    assert (admin.get(address).status, admin.delete(address).status) == (404, 404)


def test_a_policy_is_set_and_read(admin: Client) -> None:
    (policy,) = {*modules.ALL} - {*OF_EDGES}
    address = policy.path.format(id=admin.create("/ssh_certificate_authorities", {})["id"])
    written = examples.read()["ssh_certificate_authority_policy"]["replace"]
    assert unexplained("SSHCertificateAuthorityPolicyReplace", written, admin.put(address, written).json) == set()
    assert unexplained("SSHCertificateAuthorityPolicyReplace", written, admin.get(address).json) == set()


def test_every_drift_that_is_told_is_one(admin: Client) -> None:
    rsa = {"private_key_type": "rsa", "key_size": 2048}
    ecdsa = {"private_key_type": "ecdsa", "elliptic_curve": "nistp384"}
    found: set[str] = set()
    for written in (rsa, ecdsa):
        found |= plan("SSHCertificateAuthorityCreate", written, admin.create("/ssh_certificate_authorities", written))
    found |= {drift for drift in DRIFTS if not _is_shown(*drift.split("."))}
    assert found == DRIFTS.keys()


def _is_shown(schema: str, field: str) -> bool:
    """Whether the response that belongs to a request's schema has the field."""
    response = DOCUMENT["components"]["schemas"][schema.removesuffix("Create").removesuffix("Replace")]
    return field in response["properties"]


@pytest.mark.parametrize(("path", "field", "written", "shown"), FORMS, ids=[f"{form[0]} {form[1]}" for form in FORMS])
def test_what_comes_back_in_another_form_is_told(
    admin: Client, path: str, field: str, written: Any, shown: Any
) -> None:
    fresh = {name: make() for name, make in FRESH.items() if name == field}
    assert admin.create(path, {field: written, **fresh})[field] == shown
