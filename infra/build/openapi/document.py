"""The OpenAPI document: an operation for every endpoint, and shared components."""

import json
from collections.abc import Iterable
from typing import Any

from chalicelib.http import auth
from chalicelib.http.endpoints import Routes
from chalicelib.http.resource import Resource
from infra.build.openapi import operations, refusals, schemas
from infra.build.openapi.names import Operation
from infra.build.openapi.schemas import Use

Words = dict[str, Any]

_ABOUT = """\
Give services behind a firewall public addresses, decide who may visit them, and sign in to servers with short-lived SSH
certificates. This API manages what that needs, as JSON over HTTPS: API keys, SSH credentials, SSH certificate
authorities and certificates, TLS certificates, tunnels, backends, and edges with their modules. Everything belongs to
the account of the caller.

Every request carries `Authorization: Bearer <token of an API key>` and the version header. Every error has one form;
an unknown path is a 404 `no_such_route`, an unsupported method a 405 `method_not_allowed` with the header `Allow`.

`x-max-bytes` is the maximum length of a string, or of all names and values of an object, in bytes of UTF-8. The
description of a field explains formats that JSON Schema does not define. Integers are written without a fraction:
`2.0` is refused.
"""
_INFO = {
    "title": "Tunnel and edge management API",
    "version": auth.VERSIONS[0],
    "description": _ABOUT,
    "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
}
_CALLER = {"name": "Caller", "description": "The authenticated caller of the request."}
_REFERENCE = {"name": "Reference", "description": "The documentation of the API."}
_TOKEN = {"type": "http", "scheme": "bearer", "description": "The token of an API key."}


def text(routes: Iterable[Routes]) -> str:
    """Return the OpenAPI document of the routes as JSON."""
    return json.dumps(make([*routes]), indent=1, ensure_ascii=False) + "\n"


def make(routes: list[Routes]) -> Words:
    """Return the OpenAPI document, with an operation for each endpoint of the routes."""
    kinds = [each for each in routes if isinstance(each, Resource)]
    all_operations = [Operation.of(endpoint) for each in routes for endpoint in each.endpoints()]
    return {
        "openapi": "3.1.0",
        "info": _INFO,
        "servers": [{"url": "/"}],  # when the API serves the document, it inserts its base URL here
        "security": [{"token": []}],
        "tags": [*(_tag(kind) for kind in kinds), _CALLER, _REFERENCE],
        "paths": _paths(all_operations),
        "components": _components(all_operations),
    }


def _tag(kind: Resource) -> Words:
    return {"name": Operation.of(kind.endpoints()[0]).tag, "description": kind.response.__doc__}


def _paths(all_operations: list[Operation]) -> Words:
    paths: dict[str, Words] = {}
    for operation in all_operations:
        endpoint = operation.endpoint
        paths.setdefault(operation.path, {})[endpoint.method.lower()] = operations.describe(operation)
    return paths


def _components(all_operations: list[Operation]) -> Words:
    return {
        "schemas": dict(
            sorted(
                {**_schemas(all_operations), "ApiError": refusals.SCHEMA, "OAuthError": refusals.OAUTH_SCHEMA}.items()
            )
        ),
        "responses": refusals.responses([operation.endpoint for operation in all_operations]),
        "examples": refusals.examples(),
        "headers": refusals.HEADERS,
        "parameters": {
            "Version": operations.VERSION,
            "IfMatch": operations.IF_MATCH,
            "IfNoneMatch": operations.IF_NONE_MATCH,
            "IfAbsent": operations.IF_ABSENT,
            "IdempotencyKey": operations.IDEMPOTENCY_KEY,
        },
        "securitySchemes": {"token": _TOKEN},
    }


def _schemas(all_operations: list[Operation]) -> dict[str, Words]:
    uses: dict[Use, str] = {}
    for operation in all_operations:
        if operation.body:
            uses.setdefault((operation.body, "validation"), operation.request_schema)
        if operation.endpoint.response:
            uses.setdefault((operation.endpoint.response, "serialization"), operation.response_schema)
    shared_schemas = schemas.of(uses)
    separate_schemas = [
        _build_separate_schema(operation, uses, shared_schemas) for operation in all_operations if operation.id
    ]
    all_schemas = {**shared_schemas, **{name: words for schema in separate_schemas for name, words in schema.items()}}
    return {name: schemas.describe_defaults(words) for name, words in all_schemas.items()}


def _build_separate_schema(
    operation: Operation, uses: dict[Use, str], shared_schemas: dict[str, Words]
) -> dict[str, Words]:
    """Return the separate schema of an operation on an existing resource, by the name of the schema.

    Operations with bodies of the same class usually share one schema. The separate schema of an update's request has no
    defaults, because absent fields stay unchanged. The separate schema of a response has a pattern for the `id` of this
    kind of resource.
    """
    if operation.body:
        return {operation.request_schema: schemas.build_change(shared_schemas[uses[operation.body, "validation"]])}
    return (
        {operation.response_schema: schemas.restrict_id(shared_schemas[operation.response_schema], operation.id)}
        if operation.endpoint.response
        else {}
    )
