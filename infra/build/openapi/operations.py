"""Operations of the document: what an endpoint takes and answers, in words of OpenAPI."""

import inspect
from collections.abc import Iterable
from typing import Any

from chalicelib.http import auth
from chalicelib.schema import models
from chalicelib.schema.shapes import Shape
from infra.build.openapi import examples, names, refusals, schemas
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
_SENTENCES = {
    "list": "Newest first, in pages: `next_page_uri` leads to the next one.",
    "update": (
        "Partial update: the body carries only the changed fields; what is absent stays as it is. Where the text of a "
        "field says nothing else, null gives it its default, and an inline module that is null is taken away."
    ),
    "replace": "Replaces the whole: what is absent from the body gets its default. Creates it where there is none.",
    "delete": "Deletes it with everything beneath its path; answers without a body.",
}
_SAID = {200: "What was asked for.", 201: "What was created.", 204: "Done; there is no body."}


def described(operation: Operation) -> Words:
    """What the document says of an operation."""
    endpoint = operation.endpoint
    return {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": _about(operation),
        **({} if endpoint.authorizer else {"security": []}),
        "parameters": [*_parameters(operation)],
        **({"requestBody": _request(operation, endpoint.body)} if endpoint.body else {}),
        "responses": {
            str(endpoint.status): _answer(operation),
            **({"304": _UNCHANGED} if endpoint.media else {}),
            **{status: _ref("responses", name) for status, name in refusals.by(endpoint).items()},
        },
    }


def _about(operation: Operation) -> str:
    shows = operation.entry or operation.endpoint.response or (operation.endpoint.media and operation.endpoint.view)
    said = (inspect.getdoc(shows) if shows else None, _SENTENCES.get(operation.verb))
    return " ".join(sentence for sentence in said if sentence)


def _parameters(operation: Operation) -> Iterable[Words]:
    for (variable, prefix), kind in zip(operation.prefixes.items(), operation.kinds, strict=False):
        words = {"description": f"The id of the {kind.name}.", "schema": names.form(prefix)}
        yield {"name": variable, "in": "path", "required": True, **words, "example": examples.id(prefix)}
    for name, rule in operation.endpoint.query.items():
        schema = {word: value for word, value in rule.json_schema.items() if word != "description"}
        yield {"name": name, "in": "query", "description": rule.json_schema["description"], "schema": schema}
    if operation.endpoint.authorizer:
        yield _ref("parameters", "Version")


def _request(operation: Operation, body: type[Shape]) -> Words:
    fields = models.model(body).model_fields.values()
    required = {"required": True} if any(field.is_required() for field in fields) else {}  # no body is an empty object
    return {**required, **_json(operation.asked, examples.asked(operation))}


def _answer(operation: Operation) -> Words:
    words = {"description": _SAID[operation.endpoint.status]}
    names = ("Operation-Id", "ETag") if operation.endpoint.media else ("Operation-Id",)
    headers = {"headers": {name: _ref("headers", name) for name in names}}
    body = _json(operation.shown, examples.shown(operation)) if operation.endpoint.response else {}
    media = {"content": {media: {"schema": {"type": "string"}} for media in operation.endpoint.media}}
    return {**words, **headers, **body, **(media if operation.endpoint.media else {})}


def _json(schema: str, example: Words) -> Words:
    return {"content": {"application/json": {"schema": {"$ref": schemas.REF + schema}, "example": example}}}


def _ref(kind: str, name: str) -> Words:
    return {"$ref": f"#/components/{kind}/{name}"}


_UNCHANGED = {
    "description": "It has not changed since the `ETag` that If-None-Match names.",
    "headers": {name: _ref("headers", name) for name in ("Operation-Id", "ETag")},
}
