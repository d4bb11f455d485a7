"""Hold every answer against the OpenAPI document, and every body that is accepted: against what is tolerated too."""

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import jsonschema_rs
from jsonschema_rs import Draft202012Validator

from chalicelib import clock
from chalicelib.schema.json_schema import MAX_BYTES
from tests import tolerance
from tests.tolerance import document

PAGES = {"/", "/docs"}  # are for people, and lead to the document: they do not stand in it


def _is_time(text: str) -> bool:
    """Perhaps with a space in the place of its T, as RFC 3339 allows."""
    try:
        return bool(clock.parse(text))
    except ValueError:
        return False


_FORMATS = {
    "date-time": _is_time,
    "uri": lambda text: "://" in text,  # whatever a client called the host
}


@cache
def _paths() -> list[tuple[re.Pattern[str], str]]:
    """Return the document's paths with their patterns, those without a variable first."""
    paths = sorted(document()["paths"], key=lambda path: "{" in path)
    return [(re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), path) for path in paths]


@cache
def _widened_document() -> Mapping[str, Any]:
    return tolerance.widen(document())


def check(method: str, path: str, request_body: bytes, status: int, headers: Mapping[str, str], text: str) -> None:
    """Fail if the document knows nothing of such an answer, or of such a body where it is accepted."""
    if path.partition("?")[0] in PAGES and status < 400:
        return
    operation = operation_at(method, path)
    if operation is None or (status == 404 and '"no_such_route"' in text):
        assert status >= 400, f"{method} {path} answers {status} and is not documented"
        _check_refusal(text)
        return
    name = operation["operationId"]
    response = resolve(operation["responses"].get(str(status)))
    assert response, f"{name} answers {status}, which is not documented: {text}"
    missing = [header for header in response["headers"] if header.lower() not in headers]
    assert not missing, f"{name} answers {status} without {missing}"
    if "content" in response and "application/json" not in response["content"]:
        assert headers["content-type"].partition(";")[0] in response["content"], f"{name} answers {headers}"
    elif "content" in response:
        _check_content(f"{name} answers {status} with", response, text, schema)
    if status < 300 and "requestBody" in operation and request_body.startswith(b"{"):  # a form is no JSON
        body = _plain(method, request_body.decode(errors="replace"))
        _check_content(f"{name} accepts", operation["requestBody"], body, tolerant_schema)


def _plain(method: str, text: str) -> str:
    """Return a body without what is tolerated in older clients and not documented: addresses, a module in `module`."""
    body = {name: value for name, value in json.loads(text).items() if name not in ("id", "edge_id")}
    return json.dumps(body["module"] if method == "PUT" and body.keys() == {"module"} else body)


def of_another_app(*exchange: Any) -> None:
    """In the place of `check`, for a transport to an app that the document is not about."""


def operation_at(method: str, path: str) -> Mapping[str, Any] | None:
    """Return the document's operation for a method and an address, None where it has none."""
    plain = re.sub("/+", "/", path.partition("?")[0])
    template = next((template for form, template in _paths() if form.fullmatch(plain.rstrip("/"))), None)
    operation: Mapping[str, Any] | None = document()["paths"][template].get(method.lower()) if template else None
    return operation


def resolve(words: Any) -> Any:
    """Return the object that a reference leads to, and any other as it is."""
    if not words or "$ref" not in words:
        return words
    target = document()
    for step in words["$ref"].removeprefix("#/").split("/"):
        target = target[step]
    return target


class _MaxBytes:
    """The document's own keyword."""

    def __init__(self, _words: Any, limit: int, _path: Any) -> None:
        self._limit = limit

    def validate(self, value: Any) -> None:
        if isinstance(value, str) and len(value.encode()) > self._limit:
            raise ValueError(f"{len(value.encode())} bytes are more than {self._limit}")


@cache
def schema(ref: str) -> Draft202012Validator:
    """Return the validator of a schema of the document."""
    return _validator(ref, document())


@cache
def tolerant_schema(ref: str) -> Draft202012Validator:
    """Return the same, with what is tolerated beyond the document."""
    return _validator(ref, _widened_document())


def _validator(ref: str, definition: Mapping[str, Any]) -> Draft202012Validator:
    words = {"$ref": ref, "components": {"schemas": definition["components"]["schemas"]}}
    return Draft202012Validator(words, validate_formats=True, formats=_FORMATS, keywords={MAX_BYTES: _MaxBytes})


def _check_refusal(text: str) -> None:
    if text:  # an answer to HEAD has none
        _check(schema("#/components/schemas/ApiError"), json.loads(text), "A refusal is")


def _check_content(
    subject: str, content: Mapping[str, Any], text: str, validator: Callable[[str], Draft202012Validator]
) -> None:
    media = content["content"]["application/json"]
    value = json.loads(text)
    _check(validator(media["schema"]["$ref"]), value, subject)
    if "examples" in media:
        codes = {resolve(example)["value"]["error_code"] for example in media["examples"].values()}
        assert value["error_code"] in codes, f"{subject} {value['error_code']}, which is not documented"


def _check(validator: Draft202012Validator, value: Any, subject: str) -> None:
    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        location = ".".join(map(str, error.instance_path))
        raise AssertionError(f"{subject} what is not documented: {location}: {error.message[:500]}") from None
