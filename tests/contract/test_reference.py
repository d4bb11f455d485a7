"""The OpenAPI document and the reference made of it, through every transport: open to everyone, with its base URL."""

import json
from dataclasses import replace

from chalicelib.http import auth
from tests.conformity import DOCUMENT
from tests.contract.answers import check_headers
from tests.transports import Client


def test_the_document_is_there_without_a_token_and_a_version(client: Client) -> None:
    nobody = replace(client, token="", headers={})
    answer = nobody.get("/openapi.json")
    assert (answer.status, answer.json["servers"]) == (200, [{"url": client.transport.base_url}])
    (header,) = client.headers
    document = json.loads(json.dumps(DOCUMENT).replace(auth.VERSION_HEADER, header))
    assert answer.json == {**document, "servers": answer.json["servers"]}
    check_headers(answer, {"content-type": "application/json"})


def test_the_reference_is_there_without_a_token_and_a_version(client: Client) -> None:
    answer = replace(client, token="", headers={}).get("/docs")
    assert answer.status == 200
    assert answer.text.startswith("<!doctype html>")
    assert answer.text.endswith("</html>\n")
    check_headers(answer, {"content-type": "text/html; charset=utf-8", "x-content-type-options": "nosniff"})


def test_the_reference_is_sent_again_only_when_it_has_changed(client: Client) -> None:
    etag = client.get("/docs").headers["etag"]
    answer = client.send("GET", "/docs", If_None_Match=etag)
    assert (answer.status, answer.text) == (304, "")
    check_headers(answer, {"etag": etag})
