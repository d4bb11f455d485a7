"""The OpenAPI document and the reference made of it, through every transport: open to everyone, with its base URL."""

import json
from dataclasses import replace

import pytest

from chalicelib.http import auth
from tests import tolerance
from tests.contract.answers import check_headers
from tests.transports import Client


def test_the_document_is_there_without_a_token_and_a_version(client: Client) -> None:
    nobody = replace(client, token="", headers={})
    answer = nobody.get("/openapi.json")
    assert (answer.status, answer.json["servers"]) == (200, [{"url": client.transport.base_url}])
    (header,) = client.headers
    document = json.loads(json.dumps(tolerance.document()).replace(auth.VERSION_HEADER, header))
    assert answer.json == {**document, "servers": answer.json["servers"]}
    check_headers(answer, {"content-type": "application/json"})


def test_the_reference_is_there_without_a_token_and_a_version(client: Client) -> None:
    answer = replace(client, token="", headers={}).get("/docs")
    assert answer.status == 200
    assert answer.text.startswith("<!doctype html>")
    assert answer.text.endswith("</html>\n")
    check_headers(answer, {"content-type": "text/html; charset=utf-8", "x-content-type-options": "nosniff"})


@pytest.mark.parametrize(
    "accepted", ["text/html", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", "Text/HTML; q=0.1"]
)
def test_people_are_led_from_the_root_to_the_reference(client: Client, accepted: str) -> None:
    answer = replace(client, token="", headers={}).send("GET", "/", Accept=accepted)
    assert (answer.status, answer.text) == (302, "")
    check_headers(answer, {"location": f"{client.transport.base_url}/docs", "vary": "Accept"})


@pytest.mark.parametrize("accepted", ["", "*/*", "application/json", "text/html;q=0, */*", "text/plain"])
def test_programs_are_told_at_the_root_where_the_reference_and_the_document_are(client: Client, accepted: str) -> None:
    base_url = client.transport.base_url
    answer = replace(client, token="", headers={}).send("GET", "/", Accept=accepted)
    assert (answer.status, answer.json) == (200, {"docs": f"{base_url}/docs", "openapi": f"{base_url}/openapi.json"})
    check_headers(answer, {"content-type": "application/json", "vary": "Accept"})


@pytest.mark.parametrize("path", ["/docs", "/openapi.json"])
@pytest.mark.parametrize("accepted", ["*/*", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"])
def test_both_are_compressed_for_whoever_takes_that(client: Client, path: str, accepted: str) -> None:
    plain = client.send("GET", path, Accept=accepted, Accept_Encoding="gzip;q=0, identity")
    check_headers(plain, {"vary": "Accept-Encoding"})
    assert "content-encoding" not in plain.headers
    answer = client.send("GET", path, Accept=accepted, Accept_Encoding="br;q=1.0, gzip;q=0.8")
    check_headers(answer, {"vary": "Accept-Encoding", "content-encoding": "gzip"})
    assert answer.text == plain.text
    assert int(answer.headers.get("content-length", 0)) < len(plain.text) / 2
    again = client.send("GET", path, Accept_Encoding="gzip", Accept=accepted, If_None_Match=answer.headers["etag"])
    assert (again.status, again.text) == (304, "")
    assert answer.headers["etag"] != plain.headers["etag"]


def test_the_reference_is_sent_again_only_when_it_has_changed(client: Client) -> None:
    etag = client.get("/docs").headers["etag"]
    answer = client.send("GET", "/docs", If_None_Match=etag)
    assert (answer.status, answer.text) == (304, "")
    check_headers(answer, {"etag": etag})
