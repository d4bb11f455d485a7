"""HTTP response backends by their own rules; what all kinds share is tested once for all of them."""

import json
from typing import Any

import pytest

from tests.refusals import assert_invalid
from tests.transports import Client

PATH = "/backends/http_response"
NO_NAME = "must be the name of an HTTP header, for example Content-Type"
RESPONSE = {"status_code": 503, "headers": {"Retry-After": "60", "X-Empty": ""}, "body": "<p>Grüße\n\tSpäter.</p>"}


@pytest.mark.parametrize(
    "unset",
    [{}, {"status_code": 0, "headers": {}, "body": ""}, {"status_code": ""}],
)
def test_what_is_not_given_is_an_empty_200(admin: Client, unset: dict[str, Any]) -> None:
    backend = admin.create(PATH, unset)
    assert {name: backend[name] for name in RESPONSE} == {"status_code": 200, "headers": {}, "body": ""}


def test_a_change_to_nothing_goes_back_to_what_a_creation_starts_with(admin: Client) -> None:
    backend = admin.create(PATH, RESPONSE)
    uri = f"{PATH}/{backend['id']}"
    unset_backend = admin.patch(uri, {"status_code": 0, "headers": {}, "body": ""}).json
    assert unset_backend == {**backend, "status_code": 200, "headers": {}, "body": ""}
    assert admin.get(uri).json == unset_backend


@pytest.mark.parametrize("status_code", [200, 204, 304, 599])
def test_any_status_code_that_ends_a_request_can_be_answered(admin: Client, status_code: int) -> None:
    backend = admin.create(PATH, {"status_code": status_code})
    assert f'"status_code":{status_code}' in admin.get(f"{PATH}/{backend['id']}").text


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        *(("status_code", code, "must be at least 200") for code in (199, 100, -200)),
        *(("status_code", code, "must be at most 599") for code in (600, 10**30)),
        *(("status_code", code, "must be an integer") for code in (200.0, "200", True, False)),
        *(("headers", headers, "must be an object") for headers in (["x"], "X-A: 1", 1, False)),
        *(("body", body, "must be a string") for body in (["x"], 1, True)),
    ],
)
def test_what_is_no_response_is_refused(admin: Client, field: str, value: Any, sentence: str) -> None:
    assert_invalid(admin.post(PATH, {field: value}), {field: sentence})
    backend = admin.create(PATH, RESPONSE)
    assert_invalid(admin.patch(f"{PATH}/{backend['id']}", {field: value}), {field: sentence})


def test_every_bad_header_is_named(admin: Client) -> None:
    names = ("", "a\n", "\n", "a b", "a\0", "(", "é", "X Space", "X:Colon", "Grüße")
    texts = {"X-Line": "a\r\nSet-Cookie: evil", "X-Tab": "a\tb", "X-Null": "\0", "X-Next": "\x85"}
    non_texts = {"X-Number": 1, "X-None": None}
    headers = {"X-Good": "fine, even with ünïcödé", **dict.fromkeys(names, "1"), **texts, **non_texts}
    errors = {
        **{f"headers.{name}": NO_NAME for name in names},
        **{f"headers.{name}": "must not contain control characters" for name in texts},
        **{f"headers.{name}": "must be a string" for name in non_texts},
    }
    assert_invalid(admin.post(PATH, {"headers": headers}), errors)


def test_a_header_s_name_may_hold_whatever_http_allows(admin: Client) -> None:
    headers = {"!#$%&'*+-.^_`|~0Az": "1"}
    assert admin.create(PATH, {"headers": headers})["headers"] == headers


def test_a_header_of_the_connection_is_refused(admin: Client) -> None:
    framing = ("content-length", "Transfer-Encoding", "TE", "Trailer")
    names = ("Host", "CONNECTION", "keep-alive", "Proxy-Connection", "Upgrade", *framing)
    rule = (
        "must not be one of connection, content-length, host, keep-alive, proxy-connection, te, trailer,"
        " transfer-encoding, upgrade"
    )
    answer = admin.post(PATH, {"headers": {"X-Good": "1", **dict.fromkeys(names, "1")}})
    assert_invalid(answer, {f"headers.{name}": rule for name in names})


def test_a_header_stands_once_in_whatever_case(admin: Client) -> None:
    answer = admin.post(PATH, {"headers": {"X-A": "1", "x-a": "2"}})
    assert_invalid(answer, {"headers": "must not contain a header twice: names are case-insensitive"})


def test_there_are_at_most_50_headers_of_16_kib_together(admin: Client) -> None:
    many = {f"X-{number}": "" for number in range(51)}
    assert_invalid(admin.post(PATH, {"headers": many}), {"headers": "must have at most 50 entries"})
    many.popitem()
    assert admin.create(PATH, {"headers": many})["headers"] == many
    large = {"A": "é" * 4096, "B": "b" * 8190}
    assert admin.create(PATH, {"headers": large})["headers"] == large
    larger = {**large, "B": "b" * 8191}
    assert_invalid(
        admin.post(PATH, {"headers": larger}),
        {"headers": "must have names and values of at most 16384 bytes in total, in UTF-8"},
    )


def test_a_body_has_at_most_64_kib(admin: Client) -> None:
    longest = "é" * 32 * 1024
    backend = admin.create(PATH, {"body": longest})
    assert admin.get(f"{PATH}/{backend['id']}").json["body"] == longest
    errors = {"body": "must be at most 65536 bytes of UTF-8"}
    assert_invalid(admin.post(PATH, {"body": longest + "a"}), errors)
    assert_invalid(admin.patch(f"{PATH}/{backend['id']}", {"body": longest + "a"}), errors)


# JSON in JSON writes the first with seven characters each, the second with fourteen.
@pytest.mark.parametrize(
    ("body", "count"), [("\x01" * 43_000, 26), ("\U0001f600" * 16_384, 28)], ids=["control", "emoji"]
)
def test_pages_of_the_heaviest_backends_are_what_lambda_can_answer_with(admin: Client, body: str, count: int) -> None:
    backend_ids = {admin.create(PATH, {"body": body})["id"] for _ in range(count)}
    uri, listed_ids = PATH, []
    while uri:
        page = admin.get(uri)
        assert len(json.dumps(page.text)) < 6 * 1024 * 1024
        assert page.json["backends"]
        listed_ids += [backend["id"] for backend in page.json["backends"]]
        uri = (page.json["next_page_uri"] or "").removeprefix("http://localhost")
    assert len(listed_ids) == count
    assert set(listed_ids) == backend_ids
