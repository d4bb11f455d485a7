"""Error responses of each endpoint, with samples."""

import inspect
from itertools import groupby
from typing import Any

from chalicelib.http import auth, errors, etags, oauth
from chalicelib.http.endpoints import Endpoint
from chalicelib.http.errors import ApiError

Words = dict[str, Any]
Kind = type[ApiError]

_HOLDER = "edgtls_2TfXCSmBHSvnQdwvT1fBtQ1mFEY"
_OPERATION_ID = "op_2TfXCSmBHSvnQdwvT1fBtQ1mFEY"
# a sample of each error, in the order of the table of errors in docs/conventions.md
_SAMPLES: tuple[ApiError, ...] = (
    errors.InvalidRequest.of({"description": "must be at most 255 bytes of UTF-8"}),
    oauth.InvalidGrant("The token, the federated credential or its owner is not accepted."),
    errors.MalformedJson("The text is not JSON: Expecting value at character 0."),
    errors.UnknownReference(
        "'owner_id' names no user or bot of this account.",
        {"owner_id": "must be the id of a user or bot of this account"},
    ),
    errors.UnsupportedVersion(auth.unsupported_version([auth.VERSION_HEADER])),
    errors.Unauthenticated("The API key is unknown or was deleted."),
    errors.Forbidden("Only an admin may set another owner_id.", {"owner_id": "must be absent or your own id"}),
    errors.Forbidden("Only an admin may see and change bots."),
    errors.Forbidden("This API key lacks the scope api_keys:write."),
    errors.NotFound("This account has no resource with that id under /api_keys."),
    errors.NoSuchRoute("No such path. GET /docs and GET /openapi.json describe the paths of this API."),
    errors.MethodNotAllowed("GET, POST"),
    errors.Conflict("'public_key' is in use already.", {"public_key": "must be a value that no other resource uses"}),
    errors.Conflict(f"The resource is in use by {_HOLDER}.", {"used_by.0": _HOLDER}),
    errors.PreconditionFailed(etags.CHANGED),
    errors.PreconditionFailed(etags.PRESENT),
    errors.PayloadTooLarge("The body is larger than 262144 bytes."),
    errors.UnsupportedMediaType("Send the body as JSON, with the header 'Content-Type: application/json'."),
    errors.RateLimited("Too many requests at once; try again in a second."),
    errors.InternalError(),
    errors.ServiceUnavailable(),
)
EVERY: dict[Kind, list[ApiError]] = {
    kind: [sample for sample in _SAMPLES if type(sample) is kind] for kind in map(type, _SAMPLES)
}

SCHEMA: Words = {
    "description": "The body of every refusal. Examples are of one resource: others have other fields in `details`.",
    "type": "object",
    "properties": {
        "error_code": {"type": "string", "enum": [kind.code for kind in EVERY], "description": "The error."},
        "status_code": {"type": "integer", "description": "The HTTP status of the response."},
        "msg": {"type": "string", "description": "A sentence that says what to do."},
        "details": {
            "description": "The operation's id, and for each refused field, by its dotted path, what it accepts.",
            "type": "object",
            "properties": {
                "operation_id": {"type": "string", "description": "The id to quote when you report a problem."}
            },
            "required": ["operation_id"],
            "additionalProperties": {"type": "string"},
        },
    },
    "required": ["error_code", "status_code", "msg", "details"],
    "additionalProperties": False,
}
_OAUTH = {
    "error": {"type": "string", "description": "The error of RFC 6749."},
    "error_description": {"type": "string", "description": "The same sentence as `msg`."},
}
OAUTH_SCHEMA: Words = {
    **SCHEMA,
    "description": "The body of a refused exchange. Clients of OAuth read `error`.",
    "properties": {**_OAUTH, **SCHEMA["properties"]},
    "required": [*_OAUTH, *SCHEMA["required"]],
}
_ONLY_OAUTH = oauth.InvalidGrant.code
_OF_EXCHANGES = (  # errors for which the response of POST /tokens has OAuth's fields (RFC 6749)
    *(errors.InvalidRequest, oauth.InvalidGrant, errors.MalformedJson, errors.UnknownReference),
    *(errors.UnsupportedVersion, errors.Forbidden, errors.Conflict, errors.PayloadTooLarge),
    *(errors.UnsupportedMediaType, errors.InternalError, errors.ServiceUnavailable),
)
HEADERS: dict[str, Words] = {
    "Operation-Id": {"description": "The id to quote when you report a problem.", "schema": {"type": "string"}},
    "WWW-Authenticate": {"description": "How to authenticate.", "schema": {"type": "string", "enum": ["Bearer"]}},
    "Retry-After": {"description": "Seconds after which to try again.", "schema": {"type": "integer", "minimum": 0}},
    "ETag": {"description": "The version of this answer: its revision and a digest.", "schema": {"type": "string"}},
    "Allow": {"description": "The methods that the path has.", "schema": {"type": "string"}},
}


def list_by_status(endpoint: Endpoint) -> dict[str, str]:
    """Return the names of an endpoint's error responses, by status."""
    return {str(status): _name(kinds, _is_oauth(endpoint, status)) for status, kinds in _group_by_status(endpoint)}


def responses(endpoints: list[Endpoint]) -> dict[str, Words]:
    """Return all error responses by name, including errors for unknown paths and methods."""
    groups = {
        _name(kinds, is_oauth): (kinds, is_oauth)
        for endpoint in endpoints
        for status, kinds in _group_by_status(endpoint)
        for is_oauth in [_is_oauth(endpoint, status)]
    }
    groups |= {_name([kind]): ([kind], False) for kind in (errors.NoSuchRoute, errors.MethodNotAllowed)}
    return {name: _response(*group) for name, group in sorted(groups.items())}


def examples() -> dict[str, Words]:
    """Return the samples of all errors by name."""
    samples = {name: sample for kind in EVERY for name, sample in _list_samples(kind).items()}
    return {
        **{name: {"value": _body(sample)} for name, sample in samples.items() if sample.code != _ONLY_OAUTH},
        **{
            f"oauth_{name}": {"value": _oauth_body(sample)} for name, sample in samples.items() if _can_be_oauth(sample)
        },
    }


def _group_by_status(endpoint: Endpoint) -> list[tuple[int, list[Kind]]]:
    return [(status, [*group]) for status, group in groupby(of(endpoint), key=lambda kind: kind.status)]


def of(endpoint: Endpoint) -> list[Kind]:
    """Return the errors of an endpoint, sorted by status.

    Errors with the same status are sorted like the samples in this module. Raises ValueError if an error has no sample.
    """
    order = [*EVERY].index
    return sorted(_collect(endpoint), key=lambda kind: (kind.status, order(kind)))


def _collect(endpoint: Endpoint) -> set[Kind]:
    """Return the errors that an endpoint declares, and those that follow from its body, query and path."""
    error_kinds: set[Kind] = {
        errors.InvalidRequest,
        errors.RateLimited,
        errors.InternalError,
        errors.ServiceUnavailable,
    }
    error_kinds |= {*endpoint.errors}
    if endpoint.authorizer:
        error_kinds |= {errors.Unauthenticated, errors.UnsupportedVersion, errors.Forbidden}
    if endpoint.is_oauth:
        error_kinds.add(errors.UnsupportedVersion)
    if endpoint.body:
        error_kinds |= {errors.MalformedJson, errors.PayloadTooLarge, errors.UnsupportedMediaType}
    if "{" in endpoint.path:
        error_kinds.add(errors.NotFound)
    if endpoint.method == "POST":
        error_kinds.add(errors.Conflict)  # for an idempotency key that another request has used
    if endpoint.method in ("PATCH", "PUT", "DELETE"):
        error_kinds.add(errors.PreconditionFailed)
    return error_kinds


def _is_oauth(endpoint: Endpoint, status: int) -> bool:
    """Return whether an error response has the fields of OAuth (RFC 6749).

    A 429 does not have them, because the API gateway sends the same 429 for all paths.
    """
    return endpoint.is_oauth and status != errors.RateLimited.status


def _can_be_oauth(sample: ApiError) -> bool:
    return type(sample) in _OF_EXCHANGES


def _name(kinds: list[Kind], is_oauth: bool = False) -> str:
    """Return the name of a response for some errors, for example MalformedJsonOrUnknownReference."""
    name = "Or".join("".join(word.capitalize() for word in kind.code.split("_")) for kind in kinds)
    return f"OAuth{name}" if is_oauth else name


def _response(kinds: list[Kind], is_oauth: bool) -> Words:
    schema, start = ("OAuthError", "oauth_") if is_oauth else ("ApiError", "")
    names = ["Operation-Id", *EVERY[kinds[0]][0].headers]
    return {
        "description": "\n\n".join(f"`{kind.code}`: {inspect.cleandoc(kind.__doc__ or '')}" for kind in kinds),
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in names},
        "content": {
            "application/json": {
                "schema": {"$ref": f"#/components/schemas/{schema}"},
                "examples": {
                    name: {"$ref": f"#/components/examples/{start}{name}"}
                    for kind in kinds
                    for name in _list_samples(kind)
                },
            }
        },
    }


def _list_samples(kind: Kind) -> dict[str, ApiError]:
    """Return the samples of an error by name: conflict, conflict_2."""
    names = [kind.code, *(f"{kind.code}_{number}" for number in range(2, len(EVERY[kind]) + 1))]
    return dict(zip(names, EVERY[kind], strict=True))


def _body(refusal: ApiError) -> Words:
    details = {**refusal.details, "operation_id": _OPERATION_ID}
    return {"error_code": refusal.code, "status_code": refusal.status, "msg": refusal.message, "details": details}


def _oauth_body(refusal: ApiError) -> Words:
    return oauth.add_fields(refusal, _body(refusal))
