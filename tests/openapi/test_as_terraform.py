"""The requests of a Terraform provider, for every kind and module: a plan after them has nothing to do.

A provider compares what its user wrote with what the API answers, field by field. What differs is a drift, which it
would mend on every run; each that there is stands here, and why.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from infra.build.openapi.names import Operation
from tests.modules.samples import OF_EDGES, SAMPLES
from tests.openapi.test_examples import EDGE, assert_as_in_the_example, example, here, known
from tests.samples import FRESH
from tests.tolerance import DOCUMENT
from tests.transports import Client

__all__ = ["known"]  # the fixture
PATHS = DOCUMENT["paths"]

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


@pytest.mark.parametrize("path", [path for path, methods in DOCUMENT["paths"].items() if "patch" in methods])
def test_a_kind_is_created_imported_and_changed_as_in_the_examples(
    admin: Client, known: dict[str, str], path: str
) -> None:
    pattern = path.rpartition("/")[0]
    home, create, update = pattern.format(edge_id=known.get(EDGE)), PATHS[pattern]["post"], PATHS[path]["patch"]
    schema, written = name_of(create["requestBody"]), here(example(create["requestBody"]), known)
    created = admin.post(home, written)
    assert_as_in_the_example(created, create, known)
    id = created.json["id"]
    imported = admin.get(f"{home}/{id}").json
    assert unexplained(schema, written, created.json) | unexplained(schema, written, imported) == set()

    # One provider sends null for what did not change.
    nulls = dict.fromkeys(DOCUMENT["components"]["schemas"][name_of(update["requestBody"])]["properties"])
    for nothing in (*({name: None} for name in nulls), nulls):
        unchanged = admin.patch(f"{home}/{id}", nothing)
        assert (unchanged.status, unchanged.json) == (200, imported)
    change = here(example(update["requestBody"]), known)
    changed = admin.patch(f"{home}/{id}", {**nulls, **change, "id": id})
    assert_as_in_the_example(changed, update, known)
    assert unexplained(schema, written | change, changed.json) == set()
    assert admin.get(f"{home}/{id}").json == changed.json


def test_a_module_comes_back_as_it_was_set() -> None:
    """What the API answers to the samples, tests/modules/ asks it."""
    for module in OF_EDGES:
        schema = Operation.of(module.endpoints()[0]).request_schema
        for sample in SAMPLES[module.path]:
            assert unexplained(schema, sample.request, sample.response) == set()


def test_a_policy_comes_back_as_it_was_set() -> None:
    replace = PATHS["/ssh_certificate_authorities/{id}/policy"]["put"]
    written, state = example(replace["requestBody"]), example(replace["responses"]["200"])
    assert unexplained(name_of(replace["requestBody"]), written, state) == set()


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
