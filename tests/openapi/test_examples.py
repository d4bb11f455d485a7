"""The examples of requests, sent to the API: it answers what the examples of responses say."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conformity import found
from tests.modules.samples import BASE_URL
from tests.tolerance import DOCUMENT
from tests.transports import Client

EXAMPLES_URL = "https://api.example.com"
# What another moment, another account or chance makes different.
OF_ITS_OWN = {"id", "uri", "created_at", "token", "owner_id", "public_key", "certificate", "valid_after", "edge_id"}
ASKED = [
    pytest.param(method, path, operation, id=operation["operationId"])
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
    if method in ("post", "put")
]
each_change = pytest.mark.parametrize(
    "path", [path for path, methods in DOCUMENT["paths"].items() if "patch" in methods]
)


def media(side: Mapping[str, Any]) -> Any:
    return side["content"]["application/json"]


def example(side: Mapping[str, Any]) -> Any:
    return media(side)["example"]


def example_id(path: str) -> str:
    """The id of the examples for the last variable of a path."""
    parameters = DOCUMENT["paths"][path]["get"]["parameters"]
    return str([parameter["example"] for parameter in parameters if parameter.get("in") == "path"][-1])


@pytest.fixture
def known(admin: Client) -> dict[str, str]:
    """What the examples name and must exist here, by the ids of the examples."""
    return {
        example_id("/bot_users/{id}"): admin.create("/bot_users", {"name": "the owner"})["id"],
        example_id("/edges/https/{id}"): admin.create("/edges/https", {})["id"],
        example_id("/ssh_certificate_authorities/{id}"): admin.create("/ssh_certificate_authorities", {})["id"],
    }


def here(value: Any, known: Mapping[str, str]) -> Any:
    """The same with the ids and the address that there are here."""
    text = json.dumps(value).replace(EXAMPLES_URL, BASE_URL)
    for id, own in known.items():
        text = text.replace(f'"{id}"', f'"{own}"')
    return json.loads(text)


def lasting(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in OF_ITS_OWN}


@pytest.mark.parametrize(("method", "path", "operation"), ASKED)
def test_the_api_answers_as_in_the_example(
    admin: Client, known: dict[str, str], method: str, path: str, operation: Mapping[str, Any]
) -> None:
    variables = {
        parameter["name"]: here(parameter["example"], known)
        for parameter in operation["parameters"]
        if parameter.get("in") == "path"
    }
    answer = admin.send(method.upper(), path.format(**variables), here(example(operation["requestBody"]), known))
    status, response = next(iter(operation["responses"].items()))
    assert str(answer.status) == status, answer.text
    expected = here(example(response), known)
    assert lasting(answer.json) == lasting(expected)
    assert answer.json.keys() == expected.keys()


def creation(path: str, known: Mapping[str, str]) -> tuple[str, Mapping[str, Any]]:
    """Where what has the path is created, and the request that does it."""
    pattern = path.rpartition("/")[0]
    home = pattern.format(edge_id=known[example_id("/edges/https/{id}")])
    return home, DOCUMENT["paths"][pattern]["post"]["requestBody"]


@each_change
def test_the_api_changes_as_in_the_example(admin: Client, known: dict[str, str], path: str) -> None:
    operation, (home, create) = DOCUMENT["paths"][path]["patch"], creation(path, known)
    before = admin.create(home, here(example(create), known))
    answer = admin.patch(f"{home}/{before['id']}", here(example(operation["requestBody"]), known))
    expected = here(example(operation["responses"]["200"]), known)
    assert (answer.status, lasting(answer.json)) == (200, lasting(expected))
    assert answer.json.keys() == expected.keys()


@pytest.fixture
def made(admin: Client, known: dict[str, str], path: str) -> str:
    """The address of what the example creates."""
    home, create = creation(path, known)
    return f"{home}/{admin.create(home, here(example(create), known))['id']}"


@each_change
@settings(max_examples=10, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_is_null_in_a_change_stays_as_it_is(admin: Client, made: str, path: str, data: st.DataObject) -> None:
    update = found(media(DOCUMENT["paths"][path]["patch"]["requestBody"])["schema"])
    fields = sorted(update["properties"].keys() - {"description"})
    nulls = dict.fromkeys(data.draw(st.sets(st.sampled_from(fields))))
    description = data.draw(st.fixed_dictionaries({}, optional={"description": st.none() | st.text(max_size=20)}))
    before = admin.get(made).json
    after = admin.patch(made, {**nulls, **description})
    told = {name: value for name, value in description.items() if value is not None}
    assert (after.status, after.json) == (200, {**before, **told})
    assert admin.get(made).json == after.json
