"""The contract's order of checks: a request with several errors is refused for the first of them."""

from typing import Any

import pytest

from chalicelib import ids
from tests.transports import Client

AUTHORITIES = "/ssh_certificate_authorities"
CERTIFICATES = "/ssh_user_certificates"
TOO_LARGE = b"{" * (256 * 1024 + 1)


def code(client: Client, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
    answer = client.send(method, path, body, **headers)
    return answer.status, answer.json["error_code"]


def test_the_route_comes_before_the_token(nobody: Client) -> None:
    assert code(nobody, "GET", "/nope", Service_Version="9") == (404, "no_such_route")
    assert code(nobody, "PUT", "/api_keys", TOO_LARGE, Service_Version="9") == (405, "method_not_allowed")


def test_the_token_comes_before_the_version(nobody: Client) -> None:
    assert code(nobody, "POST", "/api_keys", TOO_LARGE, Service_Version="9") == (401, "unauthenticated")


def test_the_version_comes_before_the_media_type(admin: Client) -> None:
    headers = {"Service_Version": "9", "Content_Type": "text/plain"}
    assert code(admin, "POST", "/api_keys", TOO_LARGE, **headers) == (400, "unsupported_version")


def test_the_media_type_comes_before_the_size(admin: Client) -> None:
    headers = {"Content_Type": "text/plain"}
    assert code(admin, "POST", "/api_keys", TOO_LARGE, **headers) == (415, "unsupported_media_type")


def test_the_size_comes_before_the_json(admin: Client) -> None:
    assert code(admin, "POST", "/api_keys", TOO_LARGE) == (413, "payload_too_large")


def test_the_json_comes_before_the_fields(admin: Client) -> None:
    raw = b'{"description": 1, "nope": 2, "nope": 3}'
    assert code(admin, "POST", "/api_keys?nope=1", raw) == (400, "malformed_json")


def test_the_fields_come_before_the_permission(member: Client) -> None:
    body = {"owner_id": ids.new("usr"), "description": 1}
    assert code(member, "POST", "/api_keys", body) == (400, "invalid_request")


def test_the_permission_comes_before_the_existence(member: Client) -> None:
    assert code(member, "POST", "/api_keys", {"owner_id": ids.new("usr")}) == (403, "forbidden")


@pytest.mark.parametrize("body", [{"description": 1}, {"nope": 1}, {"id": "another"}])
def test_the_fields_come_before_the_existence(admin: Client, body: dict[str, Any]) -> None:
    for id in (ids.new("sshca"), "no id at all"):
        assert code(admin, "PATCH", f"{AUTHORITIES}/{id}", body) == (400, "invalid_request")
        assert code(admin, "PATCH", f"{AUTHORITIES}/{id}?nope=1", {}) == (400, "invalid_request")


def test_the_fields_come_before_what_they_refer_to(admin: Client) -> None:
    body = {"ssh_certificate_authority_id": ids.new("sshca"), "public_key": "none"}
    assert code(admin, "POST", CERTIFICATES, body) == (400, "invalid_request")
