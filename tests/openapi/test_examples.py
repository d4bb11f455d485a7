"""The examples of requests, sent to the API: it answers what the examples of responses say."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.modules.samples import BASE_URL
from tests.tolerance import DOCUMENT
from tests.transports import Answer, Client

EXAMPLES_URL = "https://api.example.com"
# What another moment, another account or chance makes different.
OF_ITS_OWN = {"id", "uri", "created_at", "token", "owner_id", "public_key", "certificate", "valid_after", "edge_id"}
ASKED = [  # but for what can be changed, of which test_as_terraform.py sends the examples
    pytest.param(method, path, id=operation["operationId"])
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
    if method == "put" or (method == "post" and "patch" not in DOCUMENT["paths"].get(f"{path}/{{id}}", ()))
]


def example(side: Mapping[str, Any]) -> Any:
    return side["content"]["application/json"]["example"]


def example_id(path: str) -> str:
    """The id of the examples for the last variable of a path."""
    parameters = DOCUMENT["paths"][path]["get"]["parameters"]
    return str([parameter["example"] for parameter in parameters if parameter.get("in") == "path"][-1])


EDGE = example_id("/edges/https/{id}")
NAMED = {  # what the examples name and must exist: by the ids of the examples, where it is created and how
    EDGE: ("/edges/https", {}),
    example_id("/bot_users/{id}"): ("/bot_users", {"name": "the owner"}),
    example_id("/ssh_certificate_authorities/{id}"): ("/ssh_certificate_authorities", {}),
}


@pytest.fixture
def known(admin: Client, path: str) -> dict[str, str]:
    """What the examples of a path and of its list name, by the ids of the examples."""
    told = json.dumps([DOCUMENT["paths"][path], DOCUMENT["paths"].get(path.rpartition("/")[0])])
    return {id: admin.create(*creation)["id"] for id, creation in NAMED.items() if f'"{id}"' in told}


def here(value: Any, known: Mapping[str, str]) -> Any:
    """The same with the ids and the address that there are here."""
    text = json.dumps(value).replace(EXAMPLES_URL, BASE_URL)
    for id, own in known.items():
        text = text.replace(f'"{id}"', f'"{own}"')
    return json.loads(text)


def lasting(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in OF_ITS_OWN}


def assert_as_in_the_example(answer: Answer, operation: Mapping[str, Any], known: Mapping[str, str]) -> None:
    status, response = next(iter(operation["responses"].items()))
    assert str(answer.status) == status, answer.text
    expected = here(example(response), known)
    assert lasting(answer.json) == lasting(expected)
    assert answer.json.keys() == expected.keys()


@pytest.mark.parametrize(("method", "path"), ASKED)
def test_the_api_answers_as_in_the_example(admin: Client, known: dict[str, str], method: str, path: str) -> None:
    operation = DOCUMENT["paths"][path][method]
    variables = {
        parameter["name"]: here(parameter["example"], known)
        for parameter in operation["parameters"]
        if parameter.get("in") == "path"
    }
    answer = admin.send(method.upper(), path.format(**variables), here(example(operation["requestBody"]), known))
    assert_as_in_the_example(answer, operation, known)
