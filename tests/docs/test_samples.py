"""The samples of the page: in curl all of them are run, one after the other, with the ids of what they made."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Served
from tests.docs.page import samples
from tests.docs.reader import Reader
from tests.openapi.test_document import OPERATIONS
from tests.samples import OPEN

pytestmark = pytest.mark.needs("the page of the reference")
TOLD = {operation["operationId"]: operation for *_, operation in OPERATIONS}
CURL = 'curl() { command curl -sS --write-out "\\n%{http_code}" "$@"; }\n'
LAST = {("DELETE", "/ip_policies/{id}"): 1, ("DELETE", "/api_keys/self"): 2}  # a policy takes its rules with it
FIRST = "/edges/https/{edge_id}/routes/{id}/basic_auth"  # a route with it cannot have OAuth
METHODS = ("POST", "PUT", "GET", "PATCH", "OFFBOARD", "DELETE")


def in_order() -> Iterator[str]:
    """Yield the operations by their ids: first what makes something, last what removes it, the innermost first.

    IP policies and the reader's own key end behind all of them, passwords of routes before the other modules are set.
    """

    def rank(method: str, path: str) -> tuple[int, int, int]:
        last = -1 if path == FIRST else LAST.get((method, path), 0)
        if path.endswith("/offboard"):
            method = "OFFBOARD"
        depth = -path.count("/") if method == "DELETE" else path.count("/")
        return last, METHODS.index(method), depth

    yield from (operation["operationId"] for *_, operation in sorted(OPERATIONS, key=lambda entry: rank(*entry[:2])))


@pytest.mark.needs("bash", "curl")
def test_every_sample_in_curl_does_what_its_operation_says(served: Served, tmp_path: Path) -> None:
    reader, of_curl, waiting, user_id = Reader.new(served), dict(samples("curl")), [*in_order()], ""
    # Other tests have what needs an issuer: tests/live/ssh/test_federation.py.
    for name in ("exchange_token", "get_federated_credential_sign_in", "delete_user_identity"):
        waiting.remove(name)
    while waiting:
        ready = next((name for name in waiting if reader.knows(of_curl[name])), "")
        assert ready, f"nothing makes what these are about: {waiting}"
        waiting.remove(ready)
        if ready in ("offboard_user", "delete_user"):  # one that owns nothing
            reader.ids["usr"] = user_id
        output = reader.run(["bash", "-euc", CURL + reader.insert_ids(of_curl[ready])], tmp_path)
        assert output.rpartition("\n")[2] == next(iter(TOLD[ready]["responses"])), (ready, output)
        if ready == "create_user":
            user_id = json.loads(output.rpartition("\n")[0])["id"]


@pytest.mark.parametrize("language", ["curl", "Python", "TypeScript", "Go"])
def test_every_operation_has_a_sample_that_reads_the_key_from_the_environment(language: str) -> None:
    of_language = dict(samples(language))
    assert of_language.keys() == TOLD.keys()
    for _, path, operation in OPERATIONS:
        needs_key = language != "curl" or path not in OPEN
        assert ("API_KEY" in of_language[operation["operationId"]]) == needs_key


def test_every_sample_in_python_is_python() -> None:
    for name, sample in samples("Python"):
        compile(sample, name, "exec")
