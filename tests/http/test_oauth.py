"""Forms and errors of OAuth, as a table."""

from typing import Any

import pytest

from chalicelib.http import oauth
from chalicelib.http.errors import ApiError, Forbidden, InternalError, InvalidRequest, ServiceUnavailable
from chalicelib.http.oauth import FORM


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", {}),
        (b"a=1&b=%C3%A9+x", {"a": "1", "b": "é x"}),
        (b"a=&b", {}),
        (b"a=%3D%26", {"a": "=&"}),
    ],
)
def test_a_form_has_texts_and_no_empty_ones(raw: bytes, expected: dict[str, Any]) -> None:
    assert oauth.parse(raw, f"{FORM}; charset=utf-8") == expected


@pytest.mark.parametrize("raw", [b"a=1&a=2", b"a=&a=", b"a=%ff", "a=é".encode(), b"&".join([b"a=1"] * 101)])
def test_other_forms_are_refused(raw: bytes) -> None:
    with pytest.raises(InvalidRequest):
        oauth.parse(raw, FORM)


def test_json_without_values_is_the_same() -> None:
    assert oauth.parse(b'{"a": null, "b": "", "c": 0}', "application/json") == {"c": 0}


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (oauth.InvalidGrant("a"), "invalid_grant"),
        (oauth.InvalidScope("a"), "invalid_scope"),
        (oauth.UnsupportedGrantType("a"), "unsupported_grant_type"),
        (InvalidRequest("a"), "invalid_request"),
        (Forbidden("a"), "invalid_request"),
        (InternalError(), "server_error"),
        (ServiceUnavailable(), "temporarily_unavailable"),
    ],
)
def test_each_error_has_a_name_of_the_standard(error: ApiError, name: str) -> None:
    assert oauth.add_fields(error, {})["error"] == name


def test_a_description_has_the_characters_of_the_standard() -> None:
    fields = oauth.add_fields(InvalidRequest('a "b" \\ ak_… é\n'), {"msg": "x"})
    assert fields == {"error": "invalid_request", "error_description": "a 'b' / ak_... ??", "msg": "a 'b' / ak_... ??"}
