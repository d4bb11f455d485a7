"""Request bodies: what is not one JSON object in UTF-8, of the right type and size, is refused with the reason."""

import json
import re
from typing import Any

import pytest

from chalicelib import ids, routes
from chalicelib.http.endpoints import Endpoint
from tests.refusals import NO_JSON_TYPE, assert_invalid, assert_refused
from tests.transports import Answer, Client

LIMIT = 256 * 1024
WITH_A_BODY = [
    pytest.param(endpoint, id=f"{endpoint.method} {endpoint.path}")
    for served in routes.ALL
    for endpoint in served.endpoints()
    if endpoint.method in ("POST", "PATCH", "PUT")
]


def pad(body: dict[str, Any], length: int) -> bytes:
    """Return the body in exactly so many bytes."""
    return json.dumps(body).encode().ljust(length)


def assert_malformed(answer: Answer, msg: str) -> None:
    assert_refused(answer, 400, "malformed_json", msg)


@pytest.mark.parametrize(
    ("raw", "msg"),
    [
        (b"{", "The text is not JSON: Expecting property name enclosed in double quotes at character 1."),
        (b" ", "The text is not JSON: Expecting value at character 1."),
        (b"\xef\xbb\xbf{}", "The text is not JSON: Unexpected UTF-8 BOM (decode using utf-8-sig) at character 0."),
        (b"nonsense", "The text is not JSON: Expecting value at character 0."),
        (b"{'a': 1}", "The text is not JSON: Expecting property name enclosed in double quotes at character 1."),
        (b"{} {}", "The text is not JSON: Extra data at character 3."),
        (b"{}\x00", "The text is not JSON: Extra data at character 2."),
        (b'{"metadata": "\n"}', "The text is not JSON: Invalid control character at character 14."),
        (b'{"metadata": "\\x"}', "The text is not JSON: Invalid \\escape at character 14."),
        (b'{"metadata": 01}', "The text is not JSON: Expecting ',' delimiter at character 14."),
        (b'{"metadata": NaN}', "NaN is not a JSON value."),
        (b'{"metadata": Infinity}', "Infinity is not a JSON value."),
        (b'{"metadata": [-Infinity]}', "-Infinity is not a JSON value."),
    ],
)
def test_a_body_that_is_not_json_is_refused(admin: Client, raw: bytes, msg: str) -> None:
    assert_malformed(admin.post("/api_keys", raw), msg)


@pytest.mark.parametrize("raw", [b"[]", b'[{"description": "d"}]', b'"text"', b"1", b"true", b"null"])
def test_a_body_that_is_not_an_object_is_refused(admin: Client, raw: bytes) -> None:
    assert_malformed(admin.post("/api_keys", raw), "The text must be a JSON object.")


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        (b'{"description": "a", "description": "a"}', "description"),
        (b'{"x": {"y": [{"z": 1, "z": 2}]}}', "z"),
        (b'{"": 1, "": 2}', ""),
        (b'{"a": 1, "\\u0061": 2}', "a"),
    ],
)
def test_a_key_named_twice_is_refused_wherever_it_is(admin: Client, raw: bytes, key: str) -> None:
    assert_malformed(admin.post("/api_keys", raw), f'The key "{key}" occurs twice in one object.')


@pytest.mark.parametrize(
    "raw",
    [b'{"description": "\xff"}', b'{"description": "\xc3"}', b'{"description": "\xed\xa0\x80"}', b"\xff\xfe{\x00}\x00"],
)
def test_a_body_that_is_not_utf_8_is_refused(admin: Client, raw: bytes) -> None:
    assert_malformed(admin.post("/api_keys", raw), "The body is not UTF-8.")


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"description": [', b'[{"a":'])
def test_brackets_too_deep_to_read_are_refused(admin: Client, opening: bytes) -> None:
    raw = (opening * LIMIT)[: LIMIT - len(opening)]
    answer = admin.post("/api_keys", raw[: len(raw) // len(opening) * len(opening)])
    assert_malformed(answer, "The text has a number with too many digits, or is nested too deeply.")


def test_brackets_that_close_may_be_deep(admin: Client) -> None:
    raw = b'{"metadata": ' + b"[" * 500 + b"]" * 500 + b"}"
    assert_invalid(admin.post("/api_keys", raw), {"metadata": "must be a string"})


def test_a_number_too_long_to_read_is_refused(admin: Client) -> None:
    answer = admin.post("/api_keys", b'{"description": ' + b"9" * 5000 + b"}")
    assert_malformed(answer, "The text has a number with too many digits, or is nested too deeply.")


def test_an_odd_number_is_refused_by_the_rule_of_its_field(admin: Client) -> None:
    rsa = {"private_key_type": "rsa"}
    for number in (1024, -1, 2**62):
        answer = admin.post("/ssh_certificate_authorities", {**rsa, "key_size": number})
        assert_invalid(answer, {"key_size": "must be one of 2048 or 4096"})
    for fraction in (2048.0, 4096.5, 1e308, -0.5):
        answer = admin.post("/ssh_certificate_authorities", {**rsa, "key_size": fraction})
        assert_invalid(answer, {"key_size": "must be an integer"})
    for number in (2**63, -(2**64), 10**300):
        answer = admin.post("/ssh_certificate_authorities", {**rsa, "key_size": number})
        assert_invalid(answer, {"key_size": "must be an integer with fewer digits"})


@pytest.mark.parametrize(
    "raw",
    [
        b'{"description": "\\ud800"}',
        b'{"metadata": "a\\uDFFFb"}',
        b'{"metadata": "\\ud83e \\udd8a"}',
        b'{"a\\ud800": 1}',
        b'{"x": [{"y": {"\\udc00": null}}]}',
    ],
)
def test_half_a_character_is_refused_wherever_it_is(admin: Client, raw: bytes) -> None:
    assert_malformed(
        admin.post("/api_keys", raw), "The text contains half of a surrogate pair, which is not a character."
    )


def test_any_unicode_is_kept_as_it_is(admin: Client) -> None:
    for text in ("\\ud83e\\udd8a", "🦊", "\\u0000", "\\u007f", "\u2028", "é", "e\u0301"):
        backend = admin.create("/backends/weighted", f'{{"description": "{text}"}}'.encode())
        assert backend["description"] == json.loads(f'"{text}"')
        assert admin.get(f"/backends/weighted/{backend['id']}").json == backend


def test_a_body_of_another_media_type_is_refused(admin: Client) -> None:
    media_types = (
        "",
        "text/plain",
        "application/jsonx",
        "application/merge-patch+json",
        "json",
        ";",
        "text/json; boundary=x",
    )
    for media_type in media_types:
        for method, path in (("POST", "/api_keys"), ("PATCH", f"/api_keys/{ids.new('ak')}")):
            answer = admin.send(method, path, {"description": "d"}, Content_Type=media_type)
            assert_refused(answer, 415, "unsupported_media_type", NO_JSON_TYPE)


def test_a_media_type_may_have_parameters_and_any_case(admin: Client) -> None:
    forms = (
        "application/json; charset=utf-8",
        "application/json;charset=UTF-8",
        "Application/JSON",
        " application/json ",
    )
    for media_type in forms:
        answer = admin.send("POST", "/api_keys", {"description": "é"}, Content_Type=media_type)
        assert (answer.status, answer.json["description"]) == (201, "é")


def test_no_body_at_all_is_an_empty_object_of_no_type(admin: Client) -> None:
    for media_type in ("", "text/plain", "application/json"):
        assert admin.send("POST", "/api_keys", None, Content_Type=media_type).status == 201


def test_the_body_of_a_get_or_delete_is_ignored(admin: Client) -> None:
    key = admin.create("/api_keys", {})
    for raw, media_type in ((b"{", "application/json"), (b"x" * (LIMIT + 1), "text/plain")):
        answer = admin.send("GET", f"/api_keys/{key['id']}", raw, Content_Type=media_type)
        assert (answer.status, answer.json) == (200, {**key, "token": None})
    assert admin.send("DELETE", f"/api_keys/{key['id']}", b"{", Content_Type="text/plain").status == 204


def test_a_body_of_256_kib_is_read_and_one_byte_more_is_too_large(admin: Client) -> None:
    assert admin.post("/api_keys", pad({"description": "d"}, LIMIT)).status == 201
    answer = admin.post("/api_keys", pad({"description": "d"}, LIMIT + 1))
    assert_refused(answer, 413, "payload_too_large", f"The body is larger than {LIMIT} bytes.")


@pytest.mark.parametrize("endpoint", WITH_A_BODY)
def test_every_method_with_a_body_checks_it(admin: Client, endpoint: Endpoint) -> None:
    path = re.sub(r"\{\w+\}", "x", endpoint.path)  # the body is checked before the ids
    answers = {
        "malformed": admin.send(endpoint.method, path, b"{"),
        "unknown field": admin.send(endpoint.method, path, {"no_field": 1}),
        "large": admin.send(endpoint.method, path, pad({}, 300_000)),
        "text": admin.send(endpoint.method, path, {}, Content_Type="text/plain"),
    }
    assert {name: (answer.status, answer.json["error_code"]) for name, answer in answers.items()} == {
        "malformed": (400, "malformed_json"),
        "unknown field": (400, "invalid_request"),
        "large": (413, "payload_too_large"),
        "text": (415, "unsupported_media_type"),
    }
    assert "no_field" in answers["unknown field"].json["details"]
