"""The listener of an HTTP response."""

from collections.abc import Mapping
from typing import Any

import pytest

from chalicelib.model.edges.backends import HttpResponse
from edge.envoy import answers
from tests.edge.envoy import messages
from tests.edge.envoy.edge_values import SETTINGS

OF_CONNECTION = ["Content-Length", "HOST", "Connection", "keep-alive", "proxy-connection", "TE", "Trailer", "upgrade"]


OF_CONNECTION.append("Transfer-Encoding")


@pytest.mark.parametrize(
    ("response", "answer", "headers"),
    [
        (HttpResponse(), {"status": 200}, {}),
        (HttpResponse(body="x"), {"status": 200, "body": {"inline_string": "x"}}, {}),
        (HttpResponse(status_code=204, body="x"), {"status": 204}, {}),
        (HttpResponse(status_code=304, body="x"), {"status": 304}, {}),
        (HttpResponse(headers={"X-A": "100%", "B": ""}), {"status": 200}, {"X-A": "100%%", "B": ""}),
        (HttpResponse(status_code=205, body="x"), {"status": 205}, {}),
        *((HttpResponse(headers={name: "x"}), {"status": 200}, {}) for name in OF_CONNECTION),
    ],
)
def test_a_response_is_as_stored_without_what_is_of_the_connection(
    response: HttpResponse, answer: Mapping[str, Any], headers: Mapping[str, str]
) -> None:
    body = messages.decode(answers.build_response_listener("bkdhr_1", response, SETTINGS))
    config = body["filter_chains"][0]["filters"][0]["typed_config"]["route_config"]
    assert config["virtual_hosts"][0]["routes"][0]["direct_response"] == answer
    headers_to_add = [option["header"] for option in config.get("response_headers_to_add", [])]
    assert {header["key"]: header.get("value", "") for header in headers_to_add} == headers
