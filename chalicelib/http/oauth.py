"""OAuth 2.0 (RFC 6749): bodies as forms, and error responses. Errors have the fields of RFC 6749 and of this API, so
that clients of both can read them.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from chalicelib.http import messages
from chalicelib.http.errors import ApiError, InvalidRequest, PayloadTooLarge, UnsupportedMediaType

FORM = "application/x-www-form-urlencoded"
GRANT_TYPE = "grant_type"
HEADERS = {"Cache-Control": "no-store"}  # headers of all errors of OAuth endpoints

_MAX_FIELDS = 100
_SERVER_ERRORS = {500: "server_error", 503: "temporarily_unavailable"}
# RFC 6749 permits only printable ASCII without `"` and `\` in a description
_REPLACEMENTS = {'"': "'", "\\": "/", "…": "..."}


class FormText(str):
    """A value of a form. Forms contain only text, so numeric fields also accept a FormText of digits."""


class OAuthError(InvalidRequest):
    """An invalid request. Subclasses have another value of RFC 6749's field `error`."""

    error = "invalid_request"


class UnsupportedGrantType(OAuthError):
    """The endpoint does not accept this `grant_type`."""

    error = "unsupported_grant_type"


class InvalidScope(OAuthError):
    """A scope is malformed, or not permitted for the new key."""

    error = "invalid_scope"


class InvalidGrant(OAuthError):
    """The token, the credential or its owner is not accepted. The answer does not say why."""

    code, error = "invalid_grant", "invalid_grant"


def parse(raw: bytes, media_type: str) -> dict[str, Any]:
    """Return the parameters of a form or JSON object. Parameters without a value are absent.

    Raises UnsupportedMediaType, PayloadTooLarge, MalformedJson, InvalidRequest.
    """
    form_type = media_type.partition(";")[0].strip().lower()
    if form_type == FORM:
        return _parse_form(raw)
    if raw and form_type != "application/json":
        raise UnsupportedMediaType("Send the body as a form or as JSON, with the matching 'Content-Type'.")
    return {name: value for name, value in messages.parse(raw, media_type).items() if value not in (None, "")}


def build_error(wrong: Mapping[str, str], values: Mapping[str, Any]) -> InvalidRequest:
    """Return the error for wrong parameters. `wrong` maps the dotted path of each to the rule that its value breaks."""
    if GRANT_TYPE in wrong and values.get(GRANT_TYPE):
        return UnsupportedGrantType(f"'{GRANT_TYPE}' {wrong[GRANT_TYPE]}.", {GRANT_TYPE: wrong[GRANT_TYPE]})
    only_scope = {*wrong} == {"scope"} and isinstance(values.get("scope"), str)
    return InvalidScope(f"'scope' {wrong['scope']}.", wrong) if only_scope else InvalidRequest.of(wrong)


def add_fields(error: ApiError, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of an error with the fields of RFC 6749."""
    name = error.error if isinstance(error, OAuthError) else _SERVER_ERRORS.get(error.status, "invalid_request")
    text = _replace_characters(error.message)
    return {"error": name, "error_description": text, **body, "msg": text}


def _parse_form(raw: bytes) -> dict[str, Any]:
    if len(raw) > messages.MAX_BYTES:
        raise PayloadTooLarge(f"The body is larger than {messages.MAX_BYTES} bytes.")
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
    except ValueError:
        raise InvalidRequest("The body is not a form in UTF-8 with at most 100 parameters.") from None
    if twice := [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]:
        raise InvalidRequest.of(dict.fromkeys(twice, "must be sent only once"))
    return {name: FormText(value) for name, value in pairs if value}


def _replace_characters(text: str) -> str:
    return "".join(_REPLACEMENTS.get(sign, sign if " " <= sign <= "~" else "?") for sign in text)
