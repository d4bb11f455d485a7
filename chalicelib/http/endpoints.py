"""Endpoints as named tuples, and the steps from a request to its view.

Every request takes these steps in this order: route, token, limits, version, scope, body, permission, view.
"""

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Protocol, cast

from chalice.app import Authorizer, Chalice, Request, Response

from chalicelib.http import auth, etags, messages, oauth
from chalicelib.http.auth import ANONYMOUS, Caller
from chalicelib.http.errors import ApiError, Conflict, InvalidRequest, NotFound, ReadOnly
from chalicelib.http.etags import Conditions
from chalicelib.http.messages import Parameters
from chalicelib.http.middleware import Raised
from chalicelib.http.static import Binary, Redirect, Static
from chalicelib.model.accounts import accounts
from chalicelib.model.audit.trail import EventActor, Trail
from chalicelib.model.base import idempotency
from chalicelib.model.changes import Change
from chalicelib.schema.shapes import Shape
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item


@dataclass(frozen=True)
class CreatedItem:
    """The result of a POST. It has the new item, and fields that only this response shows, for example a token."""

    item: Item
    once: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Call:
    """One request as its view gets it, authenticated and validated.

    `change` is the transaction of the request, to which the view adds writes. It already contains the actor and source
    address for the audit event, the check of `If-Match`, and the idempotency key. `log` has additional fields for the
    request's log line.
    """

    method: str
    caller: Caller
    change: Change
    path: dict[str, str]
    base_url: str
    body: Any
    query: Mapping[str, Any]
    log: dict[str, Any]
    has_if_match: bool = False

    @property
    def id(self) -> str:
        """Return the id of the request's resource: the last value in the path."""
        return next(reversed(self.path.values()))


class GatewayAuthorizer(Authorizer):
    """The REQUEST authorizer of API Gateway. Chalice's own authorizers get only one header."""

    name = "authorizer"

    def to_swagger(self) -> dict[str, Any]:
        functions = "arn:${AWS::Partition}:apigateway:${AWS::Region}:lambda:path/2015-03-31/functions"
        return {
            "in": "header",
            "type": "apiKey",
            "name": "Authorization",
            "x-amazon-apigateway-authtype": "custom",
            "x-amazon-apigateway-authorizer": {
                "type": "request",
                "authorizerUri": {"Fn::Sub": f"{functions}/${{Authorizer.Arn}}/invocations"},
                "authorizerResultTtlInSeconds": 0,
            },
        }


AUTHORIZER = GatewayAuthorizer()
NO_STORE = {"Cache-Control": "no-store"}  # sent with each response that contains a secret


Show = Callable[[Item, Call], dict[str, Any]]
Answer = CreatedItem | Item | dict[str, Any] | str | Static | Binary | Redirect | None


class Endpoint(NamedTuple):
    """A view for a method on a path.

    - `view` returns an item that it read or changed, or a CreatedItem. Then `show` makes the response, with an
      ETag. Any other value is the JSON body; None is no body, and a str is JSON already.
    - `show` is required for every POST, because it makes the response to a repeated request.
    - `module` is the name of the module that `show` shows, "" if it shows the item.
    - `body` is the shape of the request's body. With None, a body is ignored.
    - `response` is the shape of the response, `media` the media types of responses that are not JSON.
    - `errors` are errors beyond the common ones, `headers` response headers beyond the common ones.
    - `permits` raises Forbidden for callers that may not use the endpoint.
    - If `authorizer` is None, the endpoint requires neither token nor version, and its caller is ANONYMOUS.
    - If `is_oauth`, the body can also be a form, idempotency keys are ignored, and errors also have the fields of RFC
      6749.
    - If `is_versioned` is False, the ETag depends only on the response, not on the item's revision.
    """

    method: str
    path: str
    status: int
    view: Callable[[Call], Answer]
    show: Show | None = None
    module: str = ""
    body: type[Shape] | None = None
    query: Parameters = {}
    response: type[Shape] | None = None
    errors: tuple[type[ApiError], ...] = ()
    permits: Callable[[Caller], None] | None = None
    authorizer: Authorizer | None = AUTHORIZER
    media: tuple[str, ...] = ()
    headers: Mapping[str, str] = {}
    is_versioned: bool = True
    is_oauth: bool = False


class Routes(Protocol):
    """An object that declares endpoints, for example a resource or a module."""

    def endpoints(self) -> tuple[Endpoint, ...]: ...


def make_view(app: Chalice, endpoint: Endpoint) -> Callable[..., Response]:
    """Return Chalice's view function of an endpoint."""

    def view(**path: str) -> Response:
        try:
            request = cast(Request, app.current_request)
            if endpoint.method != "GET" and os.environ.get("READ_ONLY") == "true":
                raise ReadOnly
            call = _build_call(request, endpoint, path)
            answer = _find_answer(endpoint, call, call.change.request) if call.change.request else endpoint.view(call)
            if isinstance(answer, Static | Binary | Redirect):
                return answer.answer(request)
            return _build_response(request, endpoint, call, answer)
        except Exception as error:
            raise Raised(is_oauth=endpoint.is_oauth) from error

    return view


def _find_answer(endpoint: Endpoint, call: Call, request: idempotency.Request) -> Answer:
    """Return the view's answer, or the item that an earlier request created under the same idempotency key."""
    done = request.find()
    if done is None:
        try:
            return endpoint.view(call)
        except Exception:  # a concurrent request with the same idempotency key may have created the item
            done = request.find()
            if done is None:
                raise
    if done.digest != request.digest:
        raise Conflict("This Idempotency-Key was already used for another request: choose another key.")
    if done.once:
        raise Conflict(
            f"This request was already done: it created {done.item.id}. The secret in its response is shown only once. "
            "If it is lost, delete the resource and create another."
        )
    return CreatedItem(done.item)


def _build_response(request: Request, endpoint: Endpoint, call: Call, answer: Answer) -> Response:
    headers: dict[str, str | list[str]] = {"Content-Type": "application/json", **endpoint.headers}
    content = CreatedItem(answer) if isinstance(answer, Item) else answer
    if not isinstance(content, CreatedItem):
        text = "" if content is None else content if isinstance(content, str) else messages.text(content)
        return Response(text, headers, status_code=endpoint.status)
    call.log["resource"] = content.item.id
    response = cast(Show, endpoint.show)(content.item, call)
    text = messages.text(response)
    headers["ETag"] = tag = _compute_tag(endpoint, content.item, text)
    if_none_match = request.headers.get("if-none-match", "") if endpoint.method == "GET" else ""
    if if_none_match and etags.is_known(if_none_match, tag):
        return Response("", headers, status_code=304)
    return Response(
        messages.text({**response, **content.once}) if content.once else text, headers, status_code=endpoint.status
    )


def _compute_tag(endpoint: Endpoint, item: Item, text: str) -> str:
    """Return the entity tag of a response. It has the item's revision, and a digest of its id, module and JSON."""
    content = f"{item.id}/{endpoint.module} {text}"
    digest = hashlib.sha256(content.encode()).hexdigest()[:16]
    return f'"{item.revision}-{digest}"' if endpoint.is_versioned else f'"{digest}"'


def _build_call(request: Request, endpoint: Endpoint, path: dict[str, str]) -> Call:
    source_ip = request.context.get("identity", {}).get("sourceIp") or ""  # not X-Forwarded-For: clients can forge it
    query = request.to_original_event().get("multiValueQueryStringParameters") or {}
    caller = _find_caller(request, endpoint, source_ip, query)
    if endpoint.authorizer:
        auth.admit(caller, endpoint.method, endpoint.path, path, source_ip)
    content, parameters = _check(request, endpoint, path, caller, query)
    if endpoint.permits:
        endpoint.permits(caller)
    log = request.context.setdefault("noted", {})
    if path:
        messages.check_ids(endpoint.path, path)
        log["resource"] = [*path.values()][-1]  # only a checked id is logged: another path segment may be a secret
    key = request.headers.get("idempotency-key") if endpoint.method == "POST" and not endpoint.is_oauth else None
    # the token record of the caller's API key lacks the caller's name if an earlier version created the key
    find_name = None if caller.name else partial(accounts.name_of, caller.account, caller.id)
    actor = EventActor("api_key", caller.key, caller.id, caller.name)
    by = Trail(actor, request.context["operationId"], source_ip, "", find_name)
    change = Change(by, request=_read_idempotency_key(request, caller, key) if key is not None else None)
    conditions = (request.headers.get("if-match"), request.headers.get("if-none-match"))
    base_url, has_if_match = messages.base_url(request.headers, request.to_original_event()), conditions[0] is not None
    call = Call(endpoint.method, caller, change, path, base_url, content, parameters, log, has_if_match)
    if any(header is not None for header in conditions) and endpoint.show and endpoint.method != "POST":
        check = _check_of(Conditions(*conditions), endpoint, call)
        return replace(call, change=replace(change, check=check))
    return call


def _check_of(conditions: Conditions, endpoint: Endpoint, call: Call) -> Callable[[Item], None]:
    """Return a function that raises PreconditionFailed if an item does not meet a request's `conditions`.

    The function compares the item's current ETag, as a GET would return it, with If-Match and If-None-Match.
    """

    def check(item: Item) -> None:
        try:
            text = messages.text(cast(Show, endpoint.show)(item, call))
        # NotFound means that the module is not set, MalformedRecord that no response can be made from the item.
        except (NotFound, MalformedRecord):
            conditions.check(None)
        else:
            conditions.check(_compute_tag(endpoint, item, text))

    return check


def _read_idempotency_key(request: Request, caller: Caller, key: str) -> idempotency.Request:
    """Return the idempotency key of a request, with a digest that identifies the request. Raises InvalidRequest.

    The digest also covers the caller's API key, so the same path and body with another API key are another request.
    """
    if not re.fullmatch(r"[!-~]{1,255}", key):
        raise InvalidRequest("The header 'Idempotency-Key' must have 1 to 255 visible ASCII characters.")
    identity = f"{caller.key} {request.context.get('resourcePath')} {request.uri_params} ".encode()
    digest = hashlib.sha256(identity + cast(bytes, request.raw_body)).hexdigest()
    return idempotency.Request(caller.account, key, digest)


def _find_caller(request: Request, endpoint: Endpoint, address: str, query: Mapping[str, list[str]]) -> Caller:
    """Return the caller from API Gateway's authorizer. Without API Gateway, authenticate the request here.

    Also counts the request toward the limits of the caller, and requires a supported API version. Endpoints without
    authentication have the caller ANONYMOUS.
    """
    if endpoint.is_oauth:
        auth.check_version(request.headers)
    if not endpoint.authorizer:
        return ANONYMOUS
    if "authorizer" not in request.context:
        request.context["authorizer"] = auth.authenticate(request.headers, address).as_context()
    caller = Caller.from_context(request.context["authorizer"])
    auth.limit(caller, endpoint.method, endpoint.path, query, request.context.setdefault("headers", {}))
    auth.require_version(caller, request.headers)
    return caller


def _check(
    request: Request, endpoint: Endpoint, path: Mapping[str, str], caller: Caller, query: Mapping[str, list[str]]
) -> tuple[Shape | None, Mapping[str, Any]]:
    """Return the validated body and query parameters. Raises InvalidRequest with all validation errors of both.

    Raises Forbidden if the body names resources that the caller must not read.
    """
    content, at = None, ""
    body_errors, values = dict[str, str](), dict[str, Any]()
    if endpoint.body:
        parse = oauth.parse if endpoint.is_oauth else messages.parse
        values = parse(cast(bytes, request.raw_body), request.headers.get("content-type", ""))
        content, body_errors, at = messages.read_body(endpoint.body, endpoint.method, endpoint.path, path, values)
    parameters, query_errors = messages.check_query(endpoint.query, query) if query else ({}, {})
    if errors := body_errors | query_errors:
        raise oauth.build_error(errors, values) if endpoint.is_oauth else InvalidRequest.of(errors)
    if content and caller.limits.scopes:
        auth.admit_references(caller, content.fields_set(), at)
    return content, parameters
