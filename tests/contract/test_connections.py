"""The manners of HTTP: a connection goes on after every kind of answer, and every answer has an operation id.

Over HTTP, all requests of a test go through one connection, which must last (wire.py).
"""

from collections.abc import Callable

import pytest

from tests.contract import cases
from tests.contract.answers import Bodiless, invalid
from tests.transports import Client


def test_a_connection_goes_on_after_every_kind_of_answer(client: Client) -> None:
    address = f"/api_keys/{client.create('/api_keys', {})['id']}"
    answers = [
        client.get(address),
        client.patch(address, {"description": "kept"}),
        client.post("/api_keys", {"description": 1}),
        client.post("/api_keys", b"{"),
        client.send("POST", "/api_keys", {}, Content_Type="text/plain"),
        client.post("/api_keys", b"1" * 300_000),
        client.with_token("").post("/api_keys", {"metadata": "m" * 4096}),
        client.with_version("1").get(address),
        client.delete(address),
        client.delete(address),
        client.get("/api_keys?limit=1"),
    ]
    assert [answer.status for answer in answers] == [200, 200, 400, 400, 415, 413, 401, 400, 204, 404, 200]


def test_nothing_follows_an_answer_without_a_body(client: Client) -> None:
    edge = client.create("/edges/tls", {})
    Bodiless(204).check(client.delete(f"/edges/tls/{edge['id']}"))
    client.send("HEAD", "/edges/tls")
    invalid(limit=cases.LIMIT).check(client.get("/edges/tls?limit=0"))


def test_every_answer_has_an_operation_id_of_its_own(client: Client) -> None:
    key = client.create("/api_keys", {})
    answers = [
        client.post("/api_keys", {}),
        client.get("/api_keys?limit=1"),
        client.get(f"/api_keys/{key['id']}"),
        client.patch(f"/api_keys/{key['id']}", {}),
        client.delete(f"/api_keys/{key['id']}"),
        client.delete(f"/api_keys/{key['id']}"),
        client.get("/nope"),
        client.post("/api_keys", b"{"),
        client.with_version("1").get("/api_keys"),
    ]
    operation_ids = [answer.headers["operation-id"] for answer in answers]
    assert len({*operation_ids}) == len(answers)
    assert [a.json["details"]["operation_id"] for a in answers if a.status >= 400] == operation_ids[5:]


@pytest.mark.parametrize("write", [str.lower, str.upper, str.title])
def test_the_name_of_a_header_may_be_written_in_any_case(client: Client, write: Callable[[str], str]) -> None:
    plain_headers = {
        "Authorization": f"Bearer {client.token}",
        "Content-Type": "application/json",
        **client.headers,
    }
    headers = {write(name): value for name, value in plain_headers.items()}
    assert client.transport.send("POST", "/edges/tls", headers, b"{}").status == 201


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_may_be_written_in_any_case(client: Client, scheme: str) -> None:
    assert client.send("GET", "/api_keys", Authorization=f"{scheme} {client.token}").status == 200


@pytest.mark.parametrize("media_type", ["application/json", "Application/JSON", "application/json; charset=utf-8"])
def test_the_media_type_may_be_written_in_any_case_and_have_parameters(client: Client, media_type: str) -> None:
    assert client.send("POST", "/edges/tls", {}, Content_Type=media_type).status == 201


def test_any_unicode_comes_back_as_it_was_sent(client: Client) -> None:
    text = 'é 🦊 \u2028 \\ " \x00 \x7f e\u0301'
    edge = client.create("/edges/tls", {"metadata": text})
    assert client.get(f"/edges/tls/{edge['id']}").json["metadata"] == edge["metadata"] == text
