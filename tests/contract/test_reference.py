"""The OpenAPI document, at every door: for everyone, with the address of the door."""

from dataclasses import replace

from tests.conformity import DOCUMENT
from tests.contract.answers import check_headers
from tests.doors import Client


def test_it_is_there_without_a_token_and_a_version(client: Client) -> None:
    nobody = replace(client, token="", headers={})
    answer = nobody.get("/openapi.json")
    assert (answer.status, answer.json["servers"]) == (200, [{"url": client.door.base_url}])
    assert answer.json == {**DOCUMENT, "servers": answer.json["servers"]}
    check_headers(answer, {"content-type": "application/json"})
