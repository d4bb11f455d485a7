"""The OpenAPI document: made of the code, whole, valid, and its examples are what the API answers."""

import json
import re
from typing import Any

import pytest
import re2
from openapi_spec_validator import OpenAPIV31SpecValidator

from chalicelib import edges, modules, resources, routes
from chalicelib.__main__ import main
from chalicelib.http import errors, oauth
from chalicelib.schema import json_schema
from infra.build.openapi import refusals
from tests import conformity, tolerance
from tests.conformity import resolve
from tests.refusals import assert_invalid, assert_refused
from tests.samples import OPEN
from tests.transports import Client

DOCUMENT = tolerance.document()
OPERATIONS = [
    (method.upper(), path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]


def contents(operation: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the JSON that an operation takes and answers: schemas with examples."""
    sides = [operation.get("requestBody", {}), *map(resolve, operation["responses"].values())]
    return [side["content"]["application/json"] for side in sides if "application/json" in side.get("content", {})]


def test_it_is_valid_openapi() -> None:
    assert [error.message for error in OpenAPIV31SpecValidator(dict(DOCUMENT)).iter_errors()] == []


def test_it_holds_every_route_but_the_pages_that_lead_to_it_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    main(["routes"])
    expected = {anonymous(f"{method:6} {path}") for method, path, _ in OPERATIONS}
    assert {*map(anonymous, capsys.readouterr().out.splitlines())} == expected | {
        f"GET    {page}" for page in conformity.PAGES
    }


def anonymous(path: str) -> str:
    """Return a path whose variables have no names: the gateway has one for each place, the document more `{id}`."""
    return re.sub(r"\{\w+\}", "{}", path)


def test_what_a_module_is_of_is_the_id_in_its_path() -> None:
    assert "/edges/https/{id}/tls_termination" in DOCUMENT["paths"]
    assert "/edges/https/{edge_id}/routes/{id}/oauth" in DOCUMENT["paths"]


def test_the_operator_lists_what_it_lists_in_short(capsys: pytest.CaptureFixture[str]) -> None:
    main(["routes", "--json"])
    entries = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    operations = [(operation["method"], operation["path"], operation["operation"]) for operation in entries]
    assert operations == [(method, path, operation["operationId"]) for method, path, operation in OPERATIONS]
    operation_by_name = {operation["operation"]: operation for operation in entries}
    assert operation_by_name["get_https_edge_tls_termination"] == {
        "method": "GET",
        "path": "/edges/https/{id}/tls_termination",
        "operation": "get_https_edge_tls_termination",
        "scope": "edges:read",
        "refusals": {
            "400": ["invalid_request", "unsupported_version"],
            "401": ["unauthenticated"],
            "403": ["forbidden"],
            "404": ["not_found"],
            "429": ["rate_limited"],
            "500": ["internal_error"],
            "503": ["unavailable"],
        },
    }
    assert operation_by_name["get_openapi_json"]["scope"] is None


def test_no_path_is_another_with_other_names_and_every_operation_can_succeed() -> None:
    assert len({anonymous(path) for path in DOCUMENT["paths"]}) == len(DOCUMENT["paths"])
    for *_, operation in OPERATIONS:
        assert {status[0] for status in operation["responses"]} >= {"2", "4"}, operation["operationId"]


def test_no_two_operations_have_one_name() -> None:
    names = [operation["operationId"] for *_, operation in OPERATIONS]
    assert len({*names}) == len(names)
    assert {"create_api_key", "list_ssh_certificate_authorities", "replace_tls_edge_backend"} <= {*names}


def test_every_operation_is_told_in_words() -> None:
    tags = [tag["name"] for tag in DOCUMENT["tags"]]
    for *_, operation in OPERATIONS:
        assert operation["summary"]
        assert operation["description"]
        (tag,) = operation["tags"]
        assert tag in tags


def test_an_operation_asks_for_a_token_and_a_version_unless_it_is_open() -> None:
    for _, path, operation in OPERATIONS:
        names = [resolve(parameter)["name"] for parameter in operation["parameters"]]
        assert ("Service-Version" in names) == (path not in OPEN)
        assert operation.get("security", DOCUMENT["security"]) == ([] if path in OPEN else [{"token": []}])
        assert [name for name in re.findall(r"\{(\w+)\}", path) if name not in names] == []


def test_every_request_and_response_has_an_example_that_is_right() -> None:
    for content in (content for *_, operation in OPERATIONS for content in contents(operation)):
        example_values = [resolve(example)["value"] for example in content.get("examples", {}).values()]
        examples = [content["example"]] if "example" in content else example_values
        assert examples
        for example in examples:
            conformity.schema(content["schema"]["$ref"]).validate(example)


def test_every_field_is_told_in_words() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    fields = {(name, field): schema for name, words in schemas.items() for field, schema in words["properties"].items()}
    assert [path for path, schema in fields.items() if not schema.get("description")] == []
    parameters = [resolve(parameter) for *_, operation in OPERATIONS for parameter in operation["parameters"]]
    assert [parameter for parameter in parameters if not parameter.get("description")] == []


def test_every_refusal_of_the_contract_is_in_it() -> None:
    codes = {kind.code for kind in errors.ApiError.__subclasses__()} | {oauth.InvalidGrant.code}
    document_codes = {
        code for response in DOCUMENT["components"]["responses"].values() for code in every_code(response)
    }
    assert (
        document_codes == codes == {*DOCUMENT["components"]["schemas"]["ApiError"]["properties"]["error_code"]["enum"]}
    )


def test_a_refusal_that_has_no_sample_is_not_left_out_in_silence() -> None:
    class Locked(errors.Conflict):
        """It is locked."""

    endpoint = next(iter(routes.DOCUMENTED)).endpoints()[0]
    with pytest.raises(ValueError, match="Locked"):
        refusals.list_by_status(endpoint._replace(errors=(Locked,)))


def every_code(response: Any) -> set[str]:
    examples = response["content"]["application/json"]["examples"]
    return {resolve(example)["value"]["error_code"] for example in examples.values()}


def test_its_patterns_are_read_by_ecmascript_and_by_re2_alike() -> None:
    patterns = {*re.findall(r'"pattern": "((?:[^"\\]|\\.)*)"', json.dumps(DOCUMENT))}
    assert patterns
    for pattern in patterns:
        re2.compile(json.loads(f'"{pattern}"'))  # its syntax is a part of ECMAScript's, but for what begins with (?
        assert "(?" not in pattern.replace("(?:", "")


def test_no_rule_of_a_field_unsays_another() -> None:
    with pytest.raises(ValueError, match="the rules of a field must not set format to different"):
        json_schema.merge({"type": "string", "format": "re2"}, {"format": "networks"})


def test_every_kind_and_module_says_what_it_shows() -> None:
    declaration: Any
    for declaration in (*resources.load_all(), *edges.load_all(), *modules.load_all()):
        assert declaration.response.__doc__, declaration


def test_it_is_served_to_everyone_with_the_address_it_was_asked_for_at(nobody: Client) -> None:
    answer = nobody.send("GET", "/openapi.json", Service_Version="")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json == {**DOCUMENT, "servers": [{"url": "http://localhost"}]}


def test_it_has_no_query_and_no_other_method(nobody: Client) -> None:
    assert_invalid(nobody.get("/openapi.json?x=1"), {"x": "is not accepted here; accepted: none"})
    refusal = nobody.post("/openapi.json", {})
    assert_refused(refusal, 405, "method_not_allowed", "This path supports only GET.")


def test_a_bound_in_words_is_the_rules_own() -> None:
    """One with a number in its text and another in its rule would send clients astray."""
    count = 0
    for name, schema in DOCUMENT["components"]["schemas"].items():
        for field, words in schema.get("properties", {}).items():
            for number in re.findall(r"at most (\d+) bytes", words.get("description", "")):
                assert words["x-max-bytes"] == int(number), (name, field)
                count += 1
    assert count > 90


@pytest.mark.parametrize(("method", "path"), [("get", "/me"), ("get", "/api_keys/self"), ("delete", "/api_keys/self")])
def test_even_what_needs_no_scope_can_be_forbidden_from_an_address(method: str, path: str) -> None:
    assert "403" in DOCUMENT["paths"][path][method]["responses"]


@pytest.mark.parametrize("schema", ["ApiKey", "ReservedDomain", "ReservedAddress"])
def test_a_response_that_leaves_out_fields_still_requires_the_others(schema: str) -> None:
    fields = DOCUMENT["components"]["schemas"][schema]
    optional = {
        "created_by",
        "expires_at",
        "scopes",
        "allowed_networks",
        "limits",
        "proxy_protocol",
        "keep_headers",
        "verification",
    }
    assert fields["properties"].keys() - fields["required"] == optional & fields["properties"].keys()
