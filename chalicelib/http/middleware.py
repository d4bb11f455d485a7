"""The middleware of every request: operation id, error body, JSON of the answer, log line.

Every exception is caught here, or by the view in endpoints.py, which passes it on to this file.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from chalice.app import Chalice, ChaliceUnhandledError, Request, Response

from chalicelib import ids, tracing
from chalicelib.http import errors, log, messages, oauth
from chalicelib.http.errors import ApiError, Forbidden
from chalicelib.model.accounts import key_usage
from chalicelib.model.accounts.switching import LastAdmin
from chalicelib.model.limits.item_counts import TooManyItems
from chalicelib.model.names import base_names, name_counts
from chalicelib.model.names.base_names import OtherSettingsError
from chalicelib.model.names.name_counts import TooManyNames
from chalicelib.storage import diagnosis
from chalicelib.storage.client import aws, dynamodb
from chalicelib.storage.client.aws import AwsError
from chalicelib.storage.records import references, revocation_lists, writes
from chalicelib.storage.records.references import InUse, MissingTarget, TooManyReferrers
from chalicelib.storage.records.revocation_lists import ListFull
from chalicelib.storage.records.unique_keys import Taken
from chalicelib.storage.records.writes import TransactionTooLarge

ANY_METHOD = "x-amazon-apigateway-any-method"  # API Gateway's fallback route for methods without an endpoint
ANY_PATH = "/{proxy+}"  # API Gateway's fallback route for paths without an endpoint

_UNIQUE = "must be a value that no other resource uses"


class Methods(dict[str, Any]):
    """The methods of a path, including OPTIONS, which `chalice local` would otherwise answer itself."""

    def __contains__(self, method: object) -> bool:
        return method == "OPTIONS" or super().__contains__(method)


class Raised(ChaliceUnhandledError):
    """Wraps an exception of a view. Chalice passes this wrapper to the middleware, but answers other exceptions."""

    def __init__(self, *, is_oauth: bool = False) -> None:
        super().__init__()
        self.is_oauth = is_oauth


def wrap(app: Chalice) -> None:
    """Register this middleware with the app: it handles every request."""
    log.start()

    def answer(request: Request | None, get_response: Callable[[Any], Response]) -> Response:
        started = time.perf_counter()
        context: dict[str, Any] = request.context if request else {}
        traceparent = request.headers.get(tracing.HEADER) if request else None
        if traceparent and (trace := tracing.follow(traceparent)):
            context.setdefault("noted", {})["trace_id"] = trace
        operation_id = context["operationId"] = context.get("requestId") or ids.new("op")
        with aws.deadline():
            _check_settings(dynamodb.table_name())
            response, error = _attempt(app, request, get_response, operation_id)
            if response.status_code == Forbidden.status:
                _note_denied(context.get("authorizer", {}).get("key", ""))
        headers = {"Operation-Id": operation_id, **context.get("headers", {})}
        response.headers.update({**errors.ALWAYS, **headers})
        if traceparent:
            tracing.leave()
        log.request(_build_line(request, context, response, time.perf_counter() - started), error)
        return response

    app.register_middleware(answer, "http")


@cache
def _check_settings(_table: str) -> None:
    """Log how TUNNEL_DOMAIN and TCP_PORTS differ from the table's values, once per process."""
    with suppress(AwsError, ValueError):
        if sentence := base_names.describe_difference():
            log.warning("settings_differ", sentence)


def _attempt(
    app: Chalice, request: Request | None, get_response: Callable[[Any], Response], operation_id: str
) -> tuple[Response, BaseException | None]:
    """Return the response to a request. If the response is a 5xx, also return the exception that caused it."""
    try:
        _check_route(app, request)
        response = get_response(request)
        if not isinstance(response.body, str | bytes):
            response.body = "" if response.body is None else messages.text(response.body)
        return response, None
    except Exception as caught:
        wrapper = caught if isinstance(caught, Raised) else None
        error = (wrapper and wrapper.__cause__) or caught
        api_error = _to_api_error(error)
        response = error_response(api_error, operation_id, is_oauth=bool(wrapper and wrapper.is_oauth))
        return response, error if api_error.status >= 500 else None


def _build_line(
    request: Request | None, context: Mapping[str, Any], response: Response, seconds: float
) -> dict[str, str | float | None]:
    """Return the fields of the log line of an answered request."""
    caller = context.get("authorizer", {})
    return {
        "operation_id": context["operationId"],
        "account": caller.get("account"),
        "key": caller.get("key"),
        "method": request.method if request else None,
        "route": request.path if request else None,
        "status": response.status_code,
        "duration_ms": round(seconds * 1000, 2),
        "bytes": len(response.body if isinstance(response.body, bytes) else response.body.encode()),
        **context.get("noted", {}),
    }


def _note_denied(key: str) -> None:
    """Count a denied request in the usage of its API key. `key` is "" for an anonymous request."""
    if key:
        with suppress(AwsError):  # the client gets the same response if the request cannot be counted
            key_usage.record_denied(key)


def _check_route(app: Chalice, request: Request | None) -> None:
    """Reject paths and methods without an endpoint. API Gateway's fallback routes send these requests to the app."""
    if request is None:
        raise errors.InternalError
    methods = app.routes.get(request.path, {}).keys() - {ANY_METHOD}
    if not methods or _has_empty_segment(request):
        raise errors.NoSuchRoute("No such path. GET /docs and GET /openapi.json describe the paths of this API.")
    if request.method not in methods:
        raise errors.MethodNotAllowed(", ".join(sorted(methods)))


def _has_empty_segment(request: Request) -> bool:
    """Return whether the path has an extra slash, which API Gateway ignores when it selects the route."""
    path = request.context.get("path") or ""  # the stage, followed by the path with all slashes of the request
    return request.path != "/" and ("//" in path or path.endswith("/"))


def _to_api_error(error: BaseException) -> ApiError:
    """Return the API error for an exception. An unknown exception becomes InternalError."""
    match error:
        case ApiError():
            return error
        case aws.Unavailable():
            return errors.ServiceUnavailable()
        case aws.Misconfigured():
            return errors.InternalError(diagnosis.name_cause(error))
        case OtherSettingsError():
            return errors.OtherSettings(f"Nothing was changed: the operator must correct a setting first. {error}")
        case Taken() | InUse() | TooManyReferrers() | ListFull() | LastAdmin() | TooManyNames() | TooManyItems():
            return _build_conflict(error)
        case TransactionTooLarge():
            limit = writes.MAX_RELATIONS
            rule = f"must name at most {limit} resources; one request can add or remove at most {limit}"
            return errors.InvalidRequest(f"'{error.field}' {rule}.", {error.field: rule})
        case MissingTarget(reference=reference):
            field = reference.field
            return errors.UnknownReference(
                f"'{field}' names a resource that does not exist.", {field: f"{reference.id} does not exist"}
            )
        case _:
            return errors.InternalError()


def _build_conflict(
    error: Taken | InUse | TooManyReferrers | ListFull | LastAdmin | TooManyNames | TooManyItems,
) -> ApiError:
    match error:
        case LastAdmin():
            return errors.Conflict("This is the account's last active admin. Only the operator can switch it off.")
        case TooManyNames():
            return errors.Conflict(f"The account has {name_counts.MAX_NAMES} names, the maximum: delete some first.")
        case TooManyItems():
            return errors.Conflict(str(error))
        case ListFull():
            return errors.Conflict(f"A revocation list is full ({revocation_lists.MAX_ENTRIES} entries): delete some.")
        case Taken(key=key) if base_names.is_taken_by_operator(error):
            return errors.Conflict(
                base_names.OPERATOR_NAME_MESSAGE.format(key.field), {key.field: base_names.OPERATOR_NAME_RULE}
            )
        case Taken(key=key):
            field = key.field or key.kind
            return errors.Conflict(f"'{field}' is in use already.", {field: _UNIQUE})
        case InUse(referrers=referrers):
            details = {f"used_by.{index}": referrer for index, referrer in enumerate(referrers[:10])}
            return errors.Conflict(f"The resource is in use by {', '.join(referrers[:10])}.", details)
        case TooManyReferrers(reference=reference):
            rule = f"{reference.id} can have at most {references.MAX_REFERRERS} resources that refer to it"
            return errors.Conflict(
                f"'{reference.field}' names a resource to which too many others refer already.", {reference.field: rule}
            )


def error_response(error: ApiError, operation_id: str, *, is_oauth: bool = False) -> Response:
    """Return the response for an error. Errors of OAuth endpoints also have the fields of RFC 6749.

    A 429 never has these fields, because a 429 of API Gateway itself cannot have them.
    """
    is_oauth = is_oauth and error.status != errors.RateLimited.status
    content = {
        "error_code": error.code,
        "status_code": error.status,
        "msg": error.message,
        "details": {**error.details, "operation_id": operation_id},
    }
    content = oauth.add_fields(error, content) if is_oauth else content
    response = Response(messages.text(content), status_code=error.status)
    oauth_headers = oauth.HEADERS if is_oauth else {}
    response.headers.update({"Content-Type": "application/json", **oauth_headers, **error.headers})
    return response
