"""A POST that somebody writes by hand, in a file of its own: what it gets without asking for it."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from chalicelib import clock
from chalicelib.http.endpoints import Call, Endpoint
from chalicelib.http.errors import NotFound
from chalicelib.http.resource import show_fields
from chalicelib.model import changes
from chalicelib.model.edges.backends import HttpResponse
from chalicelib.resources.backends import http_response_backends
from chalicelib.schema.shapes import Shape
from chalicelib.storage.records.items import Item
from tests import conformity
from tests.http.conftest import Serve
from tests.refusals import assert_refused
from tests.transports import Client

PATH = "/backends/http_response"


class Break(Shape):
    why: str


@dataclass(frozen=True)
class Breaks:
    """POST …/break has a backend answer 503, and say why."""

    def endpoints(self) -> tuple[Endpoint, ...]:
        item_path = f"{PATH}/{{id}}"
        return (
            Endpoint("POST", f"{item_path}/break", 200, self.post, self.show, body=Break),
            *http_response_backends.RESOURCE.endpoints(),
        )

    def post(self, call: Call) -> Item:
        def break_record(item: Item) -> Item:
            after = replace(HttpResponse.of(item.body), status_code=503, body=f"{call.body.why} {clock.now()}")
            return replace(item, body=after.to_record())

        item = changes.rewrite(call.change, call.caller.scope(PATH), call.id, break_record)
        if item is None:
            raise NotFound("There is no such backend.")
        return item

    def show(self, item: Item, call: Call) -> dict[str, Any]:
        return show_fields(HttpResponse, item, call)


@pytest.fixture
def client(admin: Client, serve: Serve) -> Client:
    return replace(serve(admin, Breaks()), check=conformity.of_another_app)


def test_it_gets_an_event_a_revision_a_tag_idempotency_and_a_scope(admin: Client, client: Client) -> None:
    creation = client.post(PATH, {"status_code": 200})
    address = f"{PATH}/{creation.json['id']}"
    events = events_of(admin, creation.json["id"])
    answer = client.send("POST", f"{address}/break", {"why": "x"}, Idempotency_Key="a")
    assert answer.status == 200, answer.text
    assert answer.json["status_code"] == 503
    assert answer.headers["etag"] == client.get(address).headers["etag"] != creation.headers["etag"]
    (event,) = events_of(admin, creation.json["id"])[: -len(events)]
    assert (event["action"], event["changed"]) == ("http_response_backend.update", ["body", "status_code"])
    assert event["operation_id"] == answer.headers["operation-id"]

    again = client.send("POST", f"{address}/break", {"why": "x"}, Idempotency_Key="a")
    assert (again.status, again.json, again.headers["etag"]) == (200, answer.json, answer.headers["etag"])
    assert len(events_of(admin, creation.json["id"])) == len(events) + 1
    other = client.send("POST", f"{address}/break", {"why": "y"}, Idempotency_Key="a")
    assert_refused(
        other, 409, "conflict", "This Idempotency-Key was already used for another request: choose another key."
    )
    reader = client.with_token(admin.create("/api_keys", {"scopes": ["*:read"]})["token"])
    lacks = f"This API key lacks the scope backends:write@{creation.json['id']}."
    assert_refused(reader.post(f"{address}/break", {"why": "x"}), 403, "forbidden", lacks)


def events_of(admin: Client, id: str) -> list[Any]:
    return list(admin.get(f"/audit_events?resource_id={id}").json["audit_events"])
