"""The examples of requests, sent to the API: it answers what the examples of responses say, as Terraform needs it.

A provider of Terraform compares what its user wrote with what the API answers, field by field. What differs is a drift,
which it would mend on every run; each that there is stands here, and why.
"""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from chalicelib.http.endpoints import Endpoint
from infra.build.openapi import examples
from infra.build.openapi.names import Operation
from tests.modules.samples import BASE_URL, OF_EDGES, SAMPLES
from tests.tolerance import document
from tests.transports import Answer, Client

PATHS: Mapping[str, Any] = document()["paths"]
SCHEMAS = document()["components"]["schemas"]
EXAMPLES_URL = "https://api.example.com"
# What another moment, another account or chance makes different.
OF_ITS_OWN = {
    "id",
    "uri",
    "created_at",
    "created_by",
    "token",
    "owner_id",
    "public_key",
    "certificate",
    "valid_after",
    "edge_id",
    "addr",
    "cname_target",
    "verification",
}
# What was written and comes back under another name, or not at all: by schema and field.
DRIFTS = {
    "SSHCertificateAuthorityCreate.private_key_type": "the response says it as key_type",
    "TLSCertificateCreate.private_key_pem": "a secret, which no response holds",
    "HTTPSEdgeRouteBackendReplace.backend_id": "the response has a Ref: backend.id",
    "TLSEdgeBackendReplace.backend_id": "the response has a Ref: backend.id",
    "TCPEdgeBackendReplace.backend_id": "the response has a Ref: backend.id",
    "ReservedDomainCreate.certificate_id": "the response has a Ref: certificate",
    "HTTPSEdgeMutualTLSReplace.certificate_authority_ids": "the response has Refs: certificate_authorities[].id",
    "TLSEdgeMutualTLSReplace.certificate_authority_ids": "the response has Refs: certificate_authorities[].id",
    "HTTPSEdgeRouteBasicAuthReplace.credentials": "passwords, which no response holds",
    "ReservedDomainBasicAuthReplace.credentials": "passwords, which no response holds",
    **dict.fromkeys(
        (
            f"{schema}IpRestrictionReplace.ip_policy_ids"
            for schema in ("HTTPSEdge", "HTTPSEdgeRoute", "TLSEdge", "TCPEdge", "ReservedDomain", "ReservedAddress")
        ),
        "the response has Refs: ip_policies[].id",
    ),
    "IpPolicyRuleCreate.ip_policy_id": "the response has a Ref: ip_policy",
}
ASKED = [  # but for what can be changed: see the test of kinds
    pytest.param(method, path, id=operation["operationId"])
    for path, methods in PATHS.items()
    for method, operation in methods.items()
    if "requestBody" in operation
    if path != "/tokens"  # whose example has a token of an issuer
    if method == "put" or (method == "post" and "patch" not in PATHS.get(f"{path}/{{id}}", ()))
    if not path.endswith("/offboard")  # the answer depends on what there is to end
]


def example(side: Mapping[str, Any]) -> Any:
    return side["content"]["application/json"]["example"]


def example_id(path: str) -> str:
    """Return the id of the examples for the last variable of a path."""
    parameters = PATHS[path]["get"]["parameters"]
    return str([parameter["example"] for parameter in parameters if parameter.get("in") == "path"][-1])


EDGE = example_id("/edges/https/{id}")
NAMED: dict[
    str, tuple[str, dict[str, Any]]
] = {  # what the examples name and must exist: by the ids of the examples, where it is created and how
    EDGE: ("/edges/https", {}),
    example_id("/ssh_certificate_authorities/{id}"): ("/ssh_certificate_authorities", {}),
    example_id("/ip_policies/{id}"): ("/ip_policies", {}),
    example_id("/reserved_domains/{id}"): ("/reserved_domains", {"domain": "held.example.com"}),
    example_id("/reserved_addrs/{id}"): ("/reserved_addrs", {}),
}
NEED_MORE = {  # a parent, or a credential and a token
    *("/ssh_user_certificates", "/ssh_host_certificates", "/ip_policy_rules", "/tokens")
}
CREATED_AS_THEY_STAND = [  # all but those that need an id of the reader's own account
    path for path in PATHS if "post" in PATHS[path] and "{" not in path and path not in NEED_MORE
]


@pytest.fixture
def id_by_example(admin: Client, path: str) -> dict[str, str]:
    """Return the references in the examples of a path and of its list, by the ids of the examples."""
    text = json.dumps([PATHS[path], PATHS.get(path.rpartition("/")[0])])
    return {id: admin.create(*creation)["id"] for id, creation in NAMED.items() if f'"{id}"' in text}


def with_real_ids(value: Any, id_by_example: Mapping[str, str]) -> Any:
    """Return the same with the ids and the address that there are here."""
    text = json.dumps(value).replace(EXAMPLES_URL, BASE_URL)
    for id, own_id in id_by_example.items():
        text = text.replace(f'{id}"', f'{own_id}"')
    return json.loads(text)


def pick_lasting(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in OF_ITS_OWN}


def assert_as_in_the_example(answer: Answer, operation: Mapping[str, Any], id_by_example: Mapping[str, str]) -> None:
    status, response = next(iter(operation["responses"].items()))
    assert str(answer.status) == status, answer.text
    expected = with_real_ids(example(response), id_by_example)
    assert pick_lasting(answer.json) == pick_lasting(expected)
    assert answer.json.keys() == expected.keys()


def plan(schema: str, configuration: Mapping[str, Any], state: Mapping[str, Any]) -> set[str]:
    """Return the fields that a provider would change: those that were written and are not so."""
    drifts: set[str] = set()
    for name, value in configuration.items():
        references, state_value = SCHEMAS[schema]["properties"][name].get("allOf"), state.get(name)
        if references and value is not None and state_value is not None:
            drifts |= plan(references[0]["$ref"].rpartition("/")[2], value, state_value)
        elif value != state_value:
            drifts.add(f"{schema}.{name}")
    return drifts


def find_unexplained(schema: str, configuration: Mapping[str, Any], state: Mapping[str, Any]) -> set[str]:
    return plan(schema, configuration, state) - DRIFTS.keys()


def name_of(side: Mapping[str, Any]) -> str:
    return str(side["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2])


@pytest.mark.parametrize(("method", "path"), ASKED)
def test_the_api_answers_as_in_the_example(
    admin: Client, id_by_example: dict[str, str], method: str, path: str
) -> None:
    operation = PATHS[path][method]
    variables = {
        parameter["name"]: with_real_ids(parameter["example"], id_by_example)
        for parameter in operation["parameters"]
        if parameter.get("in") == "path"
    }
    body = operation.get("requestBody")
    configuration = with_real_ids(example(body), id_by_example) if body else {}
    answer = admin.send(method.upper(), path.format(**variables), configuration)
    assert_as_in_the_example(answer, operation, id_by_example)
    if body:
        assert find_unexplained(name_of(body), configuration, answer.json) == set()


@pytest.mark.parametrize(
    "path", [path for path, methods in PATHS.items() if "patch" in methods and "post" in PATHS[path.rpartition("/")[0]]]
)
def test_a_kind_is_created_imported_and_changed_as_in_the_examples(
    admin: Client, id_by_example: dict[str, str], path: str
) -> None:
    pattern = path.rpartition("/")[0]
    home, create, update = pattern.format(edge_id=id_by_example.get(EDGE)), PATHS[pattern]["post"], PATHS[path]["patch"]
    schema, configuration = name_of(create["requestBody"]), with_real_ids(example(create["requestBody"]), id_by_example)
    creation = admin.post(home, configuration)
    assert_as_in_the_example(creation, create, id_by_example)
    id = creation.json["id"]
    imported = admin.get(f"{home}/{id}").json
    assert (
        find_unexplained(schema, configuration, creation.json) | find_unexplained(schema, configuration, imported)
        == set()
    )

    # One provider sends null for what did not change.
    nulls = dict.fromkeys(SCHEMAS[name_of(update["requestBody"])]["properties"])
    for empty_change in (*({name: None} for name in nulls), nulls):
        unchanged = admin.patch(f"{home}/{id}", empty_change)
        assert (unchanged.status, unchanged.json) == (200, imported)
    change = with_real_ids(example(update["requestBody"]), id_by_example)
    patch_answer = admin.patch(f"{home}/{id}", {**nulls, **change, "id": id})
    assert_as_in_the_example(patch_answer, update, id_by_example)
    values = {name: (configuration | change)[name] for name in configuration}
    of_change = find_unexplained(name_of(update["requestBody"]), change, patch_answer.json)
    assert find_unexplained(schema, values, patch_answer.json) | of_change == set()
    assert admin.get(f"{home}/{id}").json == patch_answer.json


@pytest.mark.parametrize("path", CREATED_AS_THEY_STAND)
def test_a_reader_who_pastes_a_creation_creates_something(admin: Client, path: str) -> None:
    answer = admin.post(path, example(PATHS[path]["post"]["requestBody"]))
    assert answer.status == 201, answer.text


def test_a_module_comes_back_as_it_was_set() -> None:
    """The examples of modules are the samples; tests/modules/ holds the API's answers to them."""
    for module in OF_EDGES:
        schema = Operation.of(module.endpoints()[0]).request_schema
        for sample in SAMPLES[module.path]:
            assert find_unexplained(schema, sample.request, sample.response) == set()


def test_every_drift_that_is_told_is_one(admin: Client) -> None:
    rsa = {"private_key_type": "rsa", "key_size": 2048}
    ecdsa = {"private_key_type": "ecdsa", "elliptic_curve": "nistp384"}
    drifts: set[str] = set()
    for configuration in (rsa, ecdsa):
        drifts |= plan(
            "SSHCertificateAuthorityCreate", configuration, admin.create("/ssh_certificate_authorities", configuration)
        )
    for schema in ("HTTPSEdgeRouteBasicAuthReplace", "ReservedDomainBasicAuthReplace"):
        for sample in SAMPLES["/edges/https/{edge_id}/routes/{id}/basic_auth"]:
            drifts |= plan(schema, sample.request, sample.response) - {f"{schema}.enabled"}
    drifts |= {drift for drift in DRIFTS if not _is_shown(*drift.split("."))}
    assert drifts == DRIFTS.keys()


def _is_shown(schema: str, field: str) -> bool:
    """Return whether the response that belongs to a request's schema has the field."""
    response = SCHEMAS[schema.removesuffix("Create").removesuffix("Replace")]
    return field in response["properties"]


def test_a_time_comes_back_in_utc_and_whole_seconds(admin: Client) -> None:
    key = admin.create("/api_keys", {"expires_at": "2100-01-01T01:00:00.5+01:00"})
    assert key["expires_at"] == "2100-01-01T00:00:00Z"


def test_a_sample_that_is_missing_is_named_in_a_sentence() -> None:
    operation = Operation.of(Endpoint("POST", "/backends/weighted/{id}/shift", 200, lambda call: None))
    for build, part, part_name in (
        (examples.request, "create", "request"),
        (examples.response, "response", "response"),
    ):
        with pytest.raises(examples.NoSample) as missing:
            build(operation)
        assert str(missing.value) == (
            f'infra/build/openapi/examples.json lacks "{part}" of "weighted_backend_shift": '
            f"add the {part_name} of POST /backends/weighted/{{id}}/shift."
        )
