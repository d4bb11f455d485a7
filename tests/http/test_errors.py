"""Every row of the contract's table of errors that the app itself answers, each with its whole body and headers."""

from dataclasses import replace
from typing import Any

import pytest

from chalicelib.http.resource import New
from chalicelib.model.accounts import api_keys
from chalicelib.model.edges.backends import HttpResponse
from chalicelib.resources.backends import http_response_backends
from chalicelib.storage.records.unique_keys import UniqueKey
from tests import gateway
from tests.http.conftest import Serve
from tests.refusals import (
    NO_ROUTE,
    NO_TOKEN,
    NO_TOKEN_OF_OURS,
    NO_VERSION,
    UNKNOWN_TOKEN,
    assert_invalid,
    assert_refused,
)
from tests.transports import Client


@pytest.mark.parametrize(
    "path",
    ["/nope", "/api_keys/a/b", "/API_KEYS", "/edges", "/{proxy+}", "//api_keys", "/api_keys/", "/backends", "/%00"],
)
def test_an_unknown_path_is_no_route(nobody: Client, path: str) -> None:
    for method in ("GET", "POST", "DELETE", "OPTIONS"):
        assert_refused(nobody.send(method, path), 404, "no_such_route", NO_ROUTE)


AN_ID = f"This is an id: the token of a key is shown once, when the key is created. {NO_TOKEN}"
NO_BEARER = f"The word Bearer is missing before the token. {NO_TOKEN}"
BASIC = f"This is a Basic login. {NO_TOKEN}"
OTHER_SCHEME = f"This is not the scheme Bearer. {NO_TOKEN}"
TOKEN = "2NeverAKeyOfThisServiceXYZ0_0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("authorization", "msg"),
    [
        ("", NO_TOKEN),
        ("Bearer", NO_TOKEN),
        ("Bearer ", NO_TOKEN),
        ("Basic dXNlcjpwYXNzd29yZDEyMw==", BASIC),
        ("basic dXNlcjpwYXNzd29yZDEyMw==", BASIC),
        (f"Token {TOKEN}", OTHER_SCHEME),
        ("Digest username=someone", OTHER_SCHEME),
        ("dXNlcjpwYXNzd29yZDEyMw==", OTHER_SCHEME),
        ("Bearer ak_2NeverAKeyOfThisServiceXYZ0", AN_ID),
        ("ak_2NeverAKeyOfThisServiceXYZ0", AN_ID),
        ("Bearer usr_2NeverAKeyOfThisServiceXYZ0", AN_ID),
        ("Bearer ghp_0123456789abcdefghijklmnopqrstuvwxyz", NO_TOKEN_OF_OURS),
        ("Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", NO_TOKEN_OF_OURS),
        ("Bearer 2NeverAKeyOfThisServiceXYZ0", NO_TOKEN_OF_OURS),
        ("Bearer 2NeverAKeyOfThisServiceXYZ0_", NO_TOKEN_OF_OURS),
        ("Bearer 2NeverAKeyOfThisServiceXYZ0_0123456789 abcdef0123456789abcdef", NO_TOKEN_OF_OURS),
        ("Bearer 2NeverAKeyOfThisServiceXYZ\u00e9_0123456789abcdef0123456789abcdef", NO_TOKEN_OF_OURS),
        ("Bearer 2NeverAKeyOfThisServiceXYZ0_" + "0123456789abcdef" * 1000, NO_TOKEN_OF_OURS),
        (f"Bearer {TOKEN}\u00a0", NO_TOKEN_OF_OURS),
        (f"Bearer \u00a0{TOKEN}", NO_TOKEN_OF_OURS),
        (f"Bearer {TOKEN}\x0b", NO_TOKEN_OF_OURS),
        (TOKEN, NO_BEARER),
    ],
)
def test_a_request_without_a_well_formed_token_is_told_what_it_sent_instead(
    nobody: Client, authorization: str, msg: str
) -> None:
    answer = nobody.send("GET", "/api_keys", Authorization=authorization)
    assert_refused(answer, 401, "unauthenticated", msg)
    assert answer.headers["www-authenticate"] == "Bearer"


def test_white_space_that_is_none_of_http_is_no_end_of_a_token(admin: Client) -> None:
    for suffix in ("\u00a0", "\u2003", "\x0c", "\x1f"):
        answer = admin.send("GET", "/api_keys", Authorization=f"Bearer {admin.token}{suffix}")
        assert_refused(answer, 401, "unauthenticated", NO_TOKEN_OF_OURS)
    assert admin.send("GET", "/api_keys", Authorization=f"Bearer {admin.token} \t").status == 200


@pytest.mark.parametrize(
    "host",
    ["a.example/x", "a.example?x", "user@a.example", "a b", "a.example:port", "", "é.example", "[::1", "x" * 254],
)
def test_a_host_that_is_none_is_refused_and_leads_nowhere(
    admin: Client, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"Authorization": f"Bearer {admin.token}", "Service-Version": "2", "Host": host}
    event = gateway.event("GET", "/api_keys", headers)
    answer = gateway.answer(event)
    rule = "must be host or host:port"
    assert_refused(answer, 400, "invalid_request", f"'Host' {rule}.", {"Host": rule})
    monkeypatch.setenv("BASE_URL", "https://api.example")
    assert gateway.answer(event).json["uri"] == "https://api.example/api_keys"


@pytest.mark.parametrize("host", ["a.example", "A.example:8443", "127.0.0.1:8000", "[::1]:80", "my_host"])
def test_a_host_stands_in_every_address(admin: Client, host: str) -> None:
    headers = {"Authorization": f"Bearer {admin.token}", "Service-Version": "2", "Host": host}
    assert gateway.answer(gateway.event("GET", "/api_keys", headers)).json["uri"] == f"http://{host}/api_keys"


def test_an_unknown_token_is_not_authenticated(admin: Client) -> None:
    _, ksuid, secret = admin.token.split("_", 2)
    before = (f"{ksuid}_{secret[::-1]}", f"{ksuid}_{secret}0", f"{ksuid}_{secret[:-1]}", f"{'0' * 27}_{secret}")
    for token in (*before, f"te_{'0' * 27}_{secret}", api_keys.new_token(f"ak_{ksuid}")[0]):
        answer = admin.with_token(token).get("/api_keys")
        assert_refused(answer, 401, "unauthenticated", UNKNOWN_TOKEN)
        assert answer.headers["www-authenticate"] == "Bearer"


def test_the_scheme_may_be_written_in_any_case(admin: Client) -> None:
    for scheme in ("bearer ", "BEARER ", "Bearer  ", " Bearer "):
        assert admin.send("GET", "/api_keys", Authorization=f"{scheme}{admin.token}").status == 200


def test_another_version_is_refused_with_the_supported_ones(admin: Client) -> None:
    for version in ("", "1", "3", "-0", "00", "02", "2.0", "v2", "two", "2,0", "\u0662"):
        answer = admin.send("GET", "/api_keys", Service_Version=version)
        assert_refused(answer, 400, "unsupported_version", NO_VERSION)


def test_the_version_header_may_be_written_in_any_case(admin: Client) -> None:
    bare = Client(admin.transport, admin.token, headers={})
    for name, version in (("Service_Version", "2"), ("service_version", " 0 "), ("SERVICE_VERSION", "2")):
        assert bare.send("GET", "/api_keys", **{name: version}).status == 200


def test_the_version_header_has_the_names_of_the_setting(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERSION_HEADERS", "Acme-Version, service-version")
    bare = Client(admin.transport, admin.token, headers={})
    for name in ("Acme_Version", "ACME_VERSION", "Service_Version"):
        assert bare.send("GET", "/api_keys", **{name: "2"}).status == 200
        assert_refused(
            bare.send("GET", "/api_keys", **{name: "9"}),
            400,
            "unsupported_version",
            "Send one of the headers 'Acme-Version', 'service-version' with a supported version: 2 or 0.",
        )
    assert bare.send("GET", "/api_keys", Other_Version="2").json["error_code"] == "unsupported_version"


def test_version_headers_that_disagree_are_refused(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERSION_HEADERS", "Acme-Version, service-version")
    bare = Client(admin.transport, admin.token, headers={})
    assert bare.send("GET", "/api_keys", Acme_Version="2", Service_Version=" 2 ").status == 200
    msg = "The headers 'Acme-Version', 'service-version' name different versions: send one of them."
    for acme_version, other in (("2", "0"), ("0", "2"), ("2", "9"), ("9", "2")):
        answer = bare.send("GET", "/api_keys", Acme_Version=acme_version, Service_Version=other)
        assert_refused(answer, 400, "unsupported_version", msg)


def test_an_empty_setting_of_the_version_headers_is_none(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERSION_HEADERS", "")
    assert admin.get("/api_keys").status == 200


def test_every_bad_field_of_body_and_query_is_named_at_once(admin: Client) -> None:
    answer = admin.post("/api_keys?dry_run=1", {"description": 1, "scopes": ["api_keys:read", 3], "x": 1})
    field_names = "description, metadata, owner_id, expires_at, scopes, allowed_networks, limits"
    assert_invalid(
        answer,
        {
            "description": "must be a string",
            "scopes.1": "must be a string",
            "x": f"is not accepted here; accepted: {field_names}",
            "dry_run": "is not accepted here; accepted: none",
        },
    )


def test_at_most_100_bad_fields_are_named(admin: Client) -> None:
    answer = admin.post("/api_keys", {f"field{i}": i for i in range(1000)})
    assert answer.status == 400
    assert len(answer.json["details"]) == 101
    assert answer.json["msg"].endswith(" 999 more: see 'details'.")


def test_a_field_called_like_the_operation_id_does_not_hide_it(admin: Client) -> None:
    answer = admin.post("/api_keys", {"operation_id": "mine"})
    rule = (
        "is not accepted here; accepted: description, metadata, owner_id, expires_at, scopes, allowed_networks, limits"
    )
    assert_refused(answer, 400, "invalid_request", f"'operation_id' {rule}.")


def test_a_value_that_another_resource_holds_is_a_conflict(admin: Client, serve: Serve) -> None:
    def make(caller: Any, id: str, request: Any) -> New:
        return New(HttpResponse(), unique_keys=(UniqueKey("colour", "red"),))

    client = serve(admin, replace(http_response_backends.RESOURCE, make=make))
    path = "/backends/http_response"
    first = client.create(path, {})
    rule = {"colour": "must be a value that no other resource uses"}
    assert_refused(client.post(path, {}), 409, "conflict", "'colour' is in use already.", rule)
    assert client.get(path).json["backends"] == [first]
    assert client.delete(f"{path}/{first['id']}").status == 204
    assert client.post(path, {}).status == 201
