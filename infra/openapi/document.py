"""The OpenAPI document: an operation for every endpoint, and what all of them share."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from chalicelib import ids
from chalicelib.api import caller
from chalicelib.api.endpoints import Endpoint, Offer
from chalicelib.api.resource import Resource
from infra.openapi import examples, refusals, schemas
from infra.openapi.names import Named
from infra.openapi.schemas import Use

Words = dict[str, Any]

_ABOUT = """\
Credentials, SSH certificate authorities and certificates, TLS certificates, backends, online tunnels, and edges with
their modules, as JSON over HTTPS. Everything belongs to the account of the authenticated caller.

Every request carries `Authorization: Bearer <token of an API key>` and the version header. Every refusal has one body;
a path that does not exist is a 404 `no_such_route`, a method that a path does not have a 405 `method_not_allowed` with
the header `Allow`. Formats `utf8-<n>` are strings of at most n bytes of UTF-8.
"""
_SENTENCES = {
    "list": "Newest first, in pages: `next_page_uri` leads to the next one.",
    "update": "Partial update: the body carries only the changed fields; what is absent stays as it is.",
    "replace": "Replaces the whole: what is absent from the body is unset. Creates it where there is none.",
    "delete": "Answers without a body.",
}
_VERSION = {
    "name": caller.VERSION_HEADER,
    "in": "header",
    "required": True,
    "description": f"The version of the API; {caller.VERSIONS[0]} is the current one.",
    "schema": {"type": "string", "enum": [*caller.VERSIONS]},
    "example": caller.VERSIONS[0],
}


def text(offers: Iterable[Offer]) -> str:
    """The document as the file holds it."""
    return json.dumps(make([*offers]), indent=1, ensure_ascii=False) + "\n"


def make(offers: list[Offer]) -> Words:
    """The document of what is offered."""
    kinds = [offer for offer in offers if isinstance(offer, Resource)]
    prefixes = {kind.path: kind.prefix for kind in kinds}
    endpoints = [endpoint for offer in offers for endpoint in offer.endpoints()]
    named = {(it.method, it.path): Named.of(it, {*prefixes}) for it in endpoints}
    paths: dict[str, Words] = {}
    for it in endpoints:
        paths.setdefault(it.path, {})[it.method.lower()] = _operation(it, named[it.method, it.path], prefixes)
    return {
        "openapi": "3.1.0",
        "info": _info(),
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "tags": [
            *({"name": named["GET", kind.path].tag, "description": kind.shows.__doc__} for kind in kinds),
            {"name": "Reference", "description": "What the API says of itself."},
        ],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(_schemas(endpoints, named, prefixes).items())),
            "responses": refusals.responses(endpoints),
            "headers": refusals.HEADERS,
            "parameters": {"Version": _VERSION},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "The token of an API key."}
            },
        },
    }


def _info() -> Words:
    return {
        "title": "Tunnel and edge management API",
        "version": caller.VERSIONS[0],
        "description": _ABOUT,
        "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    }


def _operation(endpoint: Endpoint, name: Named, prefixes: Mapping[str, str]) -> Words:
    about = (endpoint.shows.__doc__ if endpoint.shows and name.verb != "list" else None) or ""
    found: Words = {
        "operationId": name.operation,
        "tags": [name.tag],
        "summary": name.summary,
        "description": " ".join(filter(None, (about, _SENTENCES.get(name.verb, "")))),
        "parameters": [*_parameters(endpoint, prefixes)],
    }
    if endpoint.authorizer is None:
        found["security"] = []
    if endpoint.body:
        found["requestBody"] = _json(name.asked, examples.asked(name))
    found["responses"] = {str(endpoint.status): _answer(endpoint, name, prefixes)}
    found["responses"] |= {
        status: {"$ref": f"#/components/responses/{response}"} for status, response in refusals.by(endpoint).items()
    }
    return found


def _parameters(endpoint: Endpoint, prefixes: Mapping[str, str]) -> Iterable[Words]:
    for variable in re.finditer(r"/\{(\w+)\}", endpoint.path):
        prefix = prefixes[endpoint.path[: variable.start()]]
        schema = {"type": "string", "pattern": ids.pattern(prefix)}
        yield {
            "name": variable[1], "in": "path", "required": True, "schema": schema, "example": examples.id(prefix)
        }  # fmt: skip
    for parameter, rule in endpoint.query.items():
        schema = {word: value for word, value in rule.says.items() if word != "description"}
        yield {"name": parameter, "in": "query", "description": rule.says["description"], "schema": schema}
    if endpoint.authorizer:
        yield {"$ref": "#/components/parameters/Version"}


def _answer(endpoint: Endpoint, name: Named, prefixes: Mapping[str, str]) -> Words:
    headers = {"Operation-Id": {"$ref": "#/components/headers/Operation-Id"}}
    if endpoint.shows is None:
        return {"description": "Done; there is no body.", "headers": headers}
    body = _json(name.shown, examples.shown(name, endpoint, prefixes))
    return {"description": _said(endpoint.status), "headers": headers, **body}


def _said(status: int) -> str:
    return {200: "What was asked for.", 201: "What was created."}[status]


def _json(schema: str, example: Words | None) -> Words:
    words: Words = {"schema": {"$ref": schemas.REF + schema}}
    return {"content": {"application/json": {**words, **({} if example is None else {"example": example})}}}


def _schemas(
    endpoints: list[Endpoint], named: Mapping[tuple[str, str], Named], prefixes: Mapping[str, str]
) -> dict[str, Words]:
    uses: dict[Use, str] = {}
    for it in endpoints:
        name = named[it.method, it.path]
        if it.body:
            uses.setdefault((it.body, "validation"), name.asked)
        if it.shows:
            uses.setdefault((it.shows, "serialization"), name.shown)
    made = schemas.of(uses)
    found = {**made}
    for it in endpoints:
        found |= _fitted(it, named[it.method, it.path], uses, made, prefixes)
    return {**found, "Error": refusals.SCHEMA}


def _fitted(
    endpoint: Endpoint, name: Named, uses: Mapping[Use, str], made: dict[str, Words], prefixes: Mapping[str, str]
) -> dict[str, Words]:
    """The schemas of an endpoint that know more than their shape: the form of the id, what a change is."""
    if (prefix := _prefix(endpoint, prefixes)) is None:
        return {}
    id = {"type": "string", "pattern": ids.pattern(prefix)}
    if endpoint.method == "PATCH" and endpoint.body:
        words = made[uses[endpoint.body, "validation"]]
        return {name.asked: schemas.of_a_change(words, {**id, "description": "The id in the path."})}
    return {name.shown: schemas.with_id(made[name.shown], id)} if name.verb == "get" else {}


def _prefix(endpoint: Endpoint, prefixes: Mapping[str, str]) -> str | None:
    """The prefix of the id that a path ends with."""
    return prefixes.get(re.sub(r"/\{\w+\}$", "", endpoint.path)) if endpoint.path.endswith("}") else None
