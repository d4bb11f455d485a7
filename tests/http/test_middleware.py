"""What becomes of errors that no endpoint expects, and the operation id of every answer."""

import json
from typing import Any

import pytest

from chalicelib import ids
from chalicelib.http.errors import ApiError
from chalicelib.storage.client.aws import Unavailable
from tests import gateway
from tests.http.conftest import OneRoute, Serve
from tests.refusals import (
    INTERNAL,
    UNAVAILABLE,
    assert_refused,
)
from tests.transports import Client


def crash(call: object) -> Any:
    raise RuntimeError("the secret of the crash")


@pytest.mark.parametrize(
    "view", [crash, lambda call: {"x": float("nan")}, lambda call: {"x": float("inf")}, lambda call: {"x": object()}]
)
def test_a_bug_says_nothing_but_the_operation_id(admin: Client, serve: Serve, view: Any) -> None:
    answer = serve(admin, OneRoute(view)).get("/path")
    assert_refused(answer, 500, "internal_error", INTERNAL)


def test_no_refusal_of_another_library_gets_through_as_it_is(admin: Client, serve: Serve) -> None:
    def refuse(call: object) -> Any:
        raise ApiError("A refusal of no row of the table.")

    answer = serve(admin, OneRoute(refuse)).get("/path")
    assert (answer.status, answer.json["error_code"]) == (500, "internal_error")


def test_a_store_out_of_reach_is_unavailable(admin: Client, serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(call: object) -> Any:
        raise Unavailable("EndpointConnectionError")

    answer = serve(admin, OneRoute(fail)).get("/path")
    assert_refused(answer, 503, "unavailable", UNAVAILABLE)
    assert answer.headers["retry-after"] == "1"
    line = json.loads(capsys.readouterr().out)
    assert (line["level"], line["status"], line["code"]) == ("ERROR", 503, "EndpointConnectionError")


def test_the_operation_id_is_a_header_of_every_answer_and_in_every_refusal(admin: Client) -> None:
    key = admin.create("/api_keys", {})
    answers = [
        admin.get("/api_keys"),
        admin.get(f"/api_keys/{key['id']}"),
        admin.post("/api_keys", {}),
        admin.delete(f"/api_keys/{key['id']}"),
        admin.get("/nope"),
        admin.put("/api_keys", {}),
        admin.post("/api_keys", b"{"),
    ]
    operation_ids = [answer.headers["operation-id"] for answer in answers]
    assert len({*operation_ids}) == len(answers)
    assert all(ids.is_id(id, "op") for id in operation_ids)
    refusals = [answer for answer in answers if answer.status >= 400]
    assert [answer.json["details"]["operation_id"] for answer in refusals] == operation_ids[-3:]


def test_the_operation_id_is_the_gateways_where_there_is_one(admin: Client) -> None:
    headers = {"Authorization": f"Bearer {admin.token}", "Service-Version": "2"}
    for path, status in (("/api_keys", 200), ("/nope", 404), ("/api_keys?limit=0", 400)):
        answer = gateway.answer(gateway.event("GET", path, headers, requestId="9f1b6b4e-0001"))
        assert (answer.status, answer.headers["operation-id"]) == (status, "9f1b6b4e-0001")
        assert status == 200 or answer.json["details"]["operation_id"] == "9f1b6b4e-0001"


def test_every_answer_requires_https_and_its_own_media_type(admin: Client, nobody: Client) -> None:
    key = admin.create("/api_keys", {})
    answers = {
        "read": admin.get("/api_keys"),
        "unchanged": admin.send("GET", f"/api_keys/{key['id']}", If_None_Match="*"),
        "deleted": admin.delete(f"/api_keys/{key['id']}"),
        "no route": admin.get("/nope"),
        "no method": admin.put("/api_keys", {}),
        "malformed": admin.post("/api_keys", b"{"),
        "no token": nobody.get("/api_keys"),
        "open": nobody.send("GET", "/", Accept="text/html"),
        "document": nobody.get("/openapi.json"),
        "health": nobody.get("/health"),
        "exchange": nobody.post("/tokens", {}),
    }
    expected = ("max-age=31536000", "nosniff")
    actual = {
        name: (answer.headers.get("strict-transport-security"), answer.headers.get("x-content-type-options"))
        for name, answer in answers.items()
    }
    assert actual == dict.fromkeys(answers, expected)
