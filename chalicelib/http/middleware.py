"""The middleware around every request: the operation id, the one error body, the answer's JSON, the log line.

Nothing but this and the view beneath it, which hands all errors over, catches everything.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from chalice.app import Chalice, ChaliceUnhandledError, Request, Response

from chalicelib import ids
from chalicelib.http import errors, log, messages
from chalicelib.http.errors import ApiError, Forbidden
from chalicelib.model import api_keys, name_counts, names
from chalicelib.model.name_counts import TooManyNames
from chalicelib.model.names import OtherSettingsError
from chalicelib.model.owners import LastAdmin
from chalicelib.storage import aws, diagnosis, dynamodb, references, revocation_lists, writes
from chalicelib.storage.aws import AwsError
from chalicelib.storage.references import InUse, MissingTarget, TooManyReferrers
from chalicelib.storage.revocation_lists import ListFull
from chalicelib.storage.unique_keys import Taken
from chalicelib.storage.writes import TransactionTooLarge

ANY_METHOD = "x-amazon-apigateway-any-method"  # the gateway's fallback for methods no endpoint has
ANY_PATH = "/{proxy+}"  # and for paths


class Raised(ChaliceUnhandledError):
    """Carries any exception out of a view: Chalice would answer all others itself before a middleware sees them."""


def wrap(app: Chalice) -> None:
    """Register this middleware with the app: it handles every request."""
    log.start()

    def answer(request: Request | None, get_response: Callable[[Any], Response]) -> Response:
        started = time.perf_counter()
        context: dict[str, Any] = request.context if request else {}
        operation_id = context["operationId"] = context.get("requestId") or ids.new("op")
        with aws.deadline():
            _check_settings(dynamodb.table_name())
            response, error = _attempt(app, request, get_response, operation_id)
            if response.status_code == Forbidden.status:
                _note_denied(context.get("authorizer", {}).get("key", ""))
        response.headers["Operation-Id"] = operation_id
        log.request(_line(request, context, response, time.perf_counter() - started), error)
        return response

    app.register_middleware(answer, "http")


@cache
def _check_settings(_table: str) -> None:
    """Log how the settings differ from those of the table, with the first request of a process."""
    with suppress(AwsError, ValueError):
        if sentence := names.describe_difference():
            log.warning("settings_differ", sentence)


def _attempt(
    app: Chalice, request: Request | None, get_response: Callable[[Any], Response], operation_id: str
) -> tuple[Response, BaseException | None]:
    """Return the answer, and the error behind it if it is a 5xx."""
    try:
        _check_route(app, request)
        response = get_response(request)
        if not isinstance(response.body, str | bytes):
            response.body = "" if response.body is None else messages.text(response.body)
        return response, None
    except Exception as caught:
        error = caught.__cause__ or caught if isinstance(caught, Raised) else caught
        api_error = _api_error(error)
        return error_response(api_error, operation_id), error if api_error.status >= 500 else None


def _line(
    request: Request | None, context: Mapping[str, Any], response: Response, seconds: float
) -> dict[str, str | float | None]:
    """Return the log line of a request that was answered after so many seconds."""
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
    """Count a denied request with the use of the API key, if it came with one."""
    if key:
        with suppress(AwsError):  # which changes nothing of the answer
            api_keys.record_denied(key)


def _check_route(app: Chalice, request: Request | None) -> None:
    """Reject paths and methods that no endpoint has, and that the gateway's fallbacks let through."""
    if request is None:
        raise errors.InternalError
    methods = app.routes.get(request.path, {}).keys() - {ANY_METHOD}
    if not methods or _has_empty_segment(request):
        raise errors.NoSuchRoute("No such path. The paths of this API stand in its reference.")
    if request.method not in methods:
        raise errors.MethodNotAllowed(", ".join(sorted(methods)))


def _has_empty_segment(request: Request) -> bool:
    """Return whether the path has a slash too many, which gateways ignore when they look for a route."""
    path = request.context.get("path") or ""  # as the client sent it, behind that of the stage
    return request.path != "/" and ("//" in path or path.endswith("/"))


def _api_error(error: BaseException) -> ApiError:
    """Return the API error that stands for an exception; an unknown one is an InternalError."""
    match error:
        case ApiError():
            return error
        case aws.Unavailable():
            return errors.Unavailable()
        case aws.Misconfigured():
            return errors.InternalError(diagnosis.for_callers(error))
        case OtherSettingsError():
            return errors.OtherSettings(f"Nothing was changed, until the operator corrects a setting. {error}")
        case Taken() | InUse() | TooManyReferrers() | ListFull() | LastAdmin() | TooManyNames():
            return _conflict(error)
        case TransactionTooLarge():
            most = writes.MAX_RELATIONS
            rule = f"must name at most {most} resources, and one change may add and remove no more than that"
            return errors.InvalidRequest(f"'{error.field}' {rule}.", {error.field: rule})
        case MissingTarget(reference=reference):
            field = reference.field
            return errors.UnknownReference(f"'{field}' names nothing.", {field: f"{reference.id} is not known"})
        case _:
            return errors.InternalError()


def _conflict(error: Taken | InUse | TooManyReferrers | ListFull | LastAdmin | TooManyNames) -> ApiError:
    match error:
        case LastAdmin():
            return errors.Conflict("This is the account's last active admin, whom only the operator switches off.")
        case TooManyNames():
            return errors.Conflict(f"The account has {name_counts.MAX_NAMES} names already, which is the most.")
        case ListFull():
            return errors.Conflict(
                f"The authority has revoked {revocation_lists.MAX_ENTRIES} already, which is the most."
            )
        case Taken(key=key) if names.is_taken_by_operator(error):
            return errors.Conflict(names.OPERATOR_NAME_MESSAGE.format(key.field), {key.field: names.OPERATOR_NAME_RULE})
        case Taken(key=key):
            field = key.field or key.kind
            return errors.Conflict(f"'{field}' is in use already.", {field: "must be one that nothing else uses"})
        case InUse(referrers=referrers):
            named = {f"used_by.{place}": referrer for place, referrer in enumerate(referrers[:10])}
            return errors.Conflict(f"Still in use by {', '.join(referrers[:10])}.", named)
        case TooManyReferrers(reference=reference):
            rule = f"{reference.id} is used by {references.MAX_REFERRERS} others already, which is the most"
            return errors.Conflict(f"'{reference.field}' names what cannot be used once more.", {reference.field: rule})


def error_response(error: ApiError, operation_id: str) -> Response:
    """Return the response of an error, in its one body."""
    content = {
        "error_code": error.code,
        "status_code": error.status,
        "msg": error.message,
        "details": {**error.details, "operation_id": operation_id},
    }
    response = Response(messages.text(content), status_code=error.status)
    response.headers.update({"Content-Type": "application/json", **error.headers})
    return response
