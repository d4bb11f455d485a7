"""Operations of the document: an endpoint's request and responses in OpenAPI."""

from collections.abc import Iterable
from typing import Any

from chalicelib.http import auth
from chalicelib.http.static import BINARY
from chalicelib.schema import models
from chalicelib.schema.shapes import Shape
from infra.build.openapi import examples, names, refusals, schemas, sentences
from infra.build.openapi.names import Operation

Words = dict[str, Any]

VERSION = {
    "name": auth.VERSION_HEADER,
    "in": "header",
    "required": True,
    "description": f"The version of the API; {auth.VERSIONS[0]} is the current one.",
    "schema": {"type": "string", "enum": [*auth.VERSIONS]},
    "example": auth.VERSIONS[0],
}
IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "description": "The ETag of the resource or module when it was read. It is changed only if its ETag is the same.",
    "schema": {"type": "string"},
}
IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "description": "The ETag of the answer that the caller has. If it is unchanged, the answer is 304 without a body.",
    "schema": {"type": "string"},
}
IF_ABSENT = {
    "name": "If-None-Match",
    "in": "header",
    "description": "`*`: it is created only if there is none yet.",
    "schema": {"type": "string"},
}
IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": (
        "Identifies this request for 24 hours: if it is repeated with the same key, it is done only once. "
        "1 to 255 visible ASCII characters that the caller chooses."
    ),
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]{1,255}$"},
}
_CONDITIONS = {
    "IfMatch": ("update", "replace", "delete"),
    "IfNoneMatch": ("get",),
    "IfAbsent": ("replace",),
    "IdempotencyKey": ("create", "verify"),
}
_TEXT = {"type": "string"}
_RAW = {BINARY: {"type": "string", "format": "binary"}}
_DESCRIPTIONS = {
    200: "The requested content.",
    201: "The created resource.",
    202: "Accepted; the present state of the resource.",
    204: "Done; the response has no body.",
}


def describe(operation: Operation) -> Words:
    """Return the description of an operation."""
    endpoint = operation.endpoint
    return {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": sentences.describe(operation),
        **({} if endpoint.authorizer else {"security": []}),
        "parameters": [*_parameters(operation)],
        **({"requestBody": _request(operation, operation.body)} if operation.body else {}),
        "responses": {
            str(endpoint.status): _answer(operation),
            **({"304": _UNCHANGED} if operation.verb == "get" else {}),
            **{status: _ref("responses", name) for status, name in refusals.list_by_status(endpoint).items()},
        },
    }


def _parameters(operation: Operation) -> Iterable[Words]:
    for variable, kind in operation.ids.items():
        words = {"description": f"The id of the {kind.name}.", "schema": names.form(kind.prefix)}
        yield {"name": variable, "in": "path", "required": True, **words, "example": examples.id(kind.prefix)}
    for name, rule in operation.endpoint.query.items():
        schema = {word: value for word, value in rule.json_schema.items() if word != "description"}
        yield {"name": name, "in": "query", "description": rule.json_schema["description"], "schema": schema}
    if operation.endpoint.authorizer:
        yield _ref("parameters", "Version")
    yield from (_ref("parameters", name) for name, verbs in _CONDITIONS.items() if operation.verb in verbs)


def _request(operation: Operation, body: type[Shape]) -> Words:
    fields = models.model(body).model_fields.values()
    required = (
        {"required": True} if any(field.is_required() for field in fields) else {}
    )  # a missing body is an empty object
    content = _json(operation.request_schema, examples.request(operation))["content"]
    return {**required, "content": content}


def _answer(operation: Operation) -> Words:
    words = {"description": _DESCRIPTIONS[operation.endpoint.status]}
    names = ["Operation-Id", *(["ETag"] if operation.verb in ("get", "create", "update", "replace", "verify") else [])]
    headers = {"headers": {name: _ref("headers", name) for name in names}}
    body = _json(operation.response_schema, examples.response(operation)) if operation.endpoint.response else {}
    media = {"content": {media: {"schema": _RAW.get(media, _TEXT)} for media in operation.endpoint.media}}
    return {**words, **headers, **body, **(media if operation.endpoint.media else {})}


def _json(schema: str, example: Words) -> Words:
    return {"content": {"application/json": {"schema": {"$ref": schemas.REF + schema}, "example": example}}}


def _ref(kind: str, name: str) -> Words:
    return {"$ref": f"#/components/{kind}/{name}"}


_UNCHANGED = {
    "description": "The `ETag` is still the one in If-None-Match.",
    "headers": {name: _ref("headers", name) for name in ("Operation-Id", "ETag")},
}
