"""Endpoints as plain tuples, and the one path from a request to a view.

Every request passes the same steps in the contract's order: route, token, version, body, fields, permission; then its
view.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, cast

from chalice.app import Authorizer, Chalice, Request, Response

from chalicelib.http import addresses, auth, body, etags, links, query
from chalicelib.http.auth import ANONYMOUS, Caller
from chalicelib.http.errors import ApiError, InvalidRequest
from chalicelib.http.etags import UNCONDITIONAL, Conditions
from chalicelib.http.middleware import ANY_METHOD, ANY_PATH, Raised
from chalicelib.http.query import Parameters
from chalicelib.http.static import Binary, Redirect, Static
from chalicelib.model import api_keys, scopes
from chalicelib.model.audit import Actor, Trail
from chalicelib.schema.shapes import Shape
from chalicelib.storage.aws import AwsError
from chalicelib.storage.items import Item


@dataclass
class Noted:
    """Notes of a view beside its response: the revision of what it shows, for the ETag, and fields of the log line.

    `once` are the names of fields that this response alone shows: they are null in the one that the ETag is of.
    """

    revision: int | None = None
    subject: str = ""
    once: tuple[str, ...] = ()
    log: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Repeatable:
    """A request that may be repeated: its idempotency key, and the digest that tells it from others."""

    key: str
    digest: str


@dataclass(frozen=True)
class Call:
    """One request as its view sees it: who calls and from where, the path's values, the body in its shape, the query.

    `conditions` are the headers that say of which state it may be done, `repeatable` the request under its idempotency
    key.
    """

    caller: Caller
    trail: Trail
    path: dict[str, str]
    base_url: str
    body: Any
    query: Mapping[str, Any]
    conditions: Conditions = UNCONDITIONAL
    repeatable: Repeatable | None = None
    noted: Noted = field(default_factory=Noted)

    @property
    def id(self) -> str:
        """Return the id of what the request is about: the last value in the path."""
        return next(reversed(self.path.values()))

    def check(self, item: Item, present: Callable[[], Mapping[str, Any] | None], *, module: str = "") -> None:
        """Raise PreconditionFailed unless the request's conditions hold of the item, or of a module of it.

        `present` returns what a GET would answer, None where nothing is; it is called only where there are conditions.
        """
        if self.conditions:
            now = present()
            tag = None if now is None else etags.of(item.revision, _subject(item, module), body.text(now))
            self.conditions.check(tag)

    def note(self, item: Item, *, module: str = "") -> None:
        """Record what the response shows of an item, or of a module of it, for its ETag and the log line."""
        self.noted.revision, self.noted.subject = item.revision, _subject(item, module)
        self.noted.log["resource"] = item.id


def _subject(item: Item, module: str) -> str:
    return f"{item.id}/{module}"


class GatewayAuthorizer(Authorizer):
    """The gateway's REQUEST authorizer; Chalice has none that sees more than one header."""

    name = "authorizer"

    def to_swagger(self) -> dict[str, Any]:
        uri = (
            "arn:${AWS::Partition}:apigateway:${AWS::Region}:lambda:path/2015-03-31/functions/"
            "${Authorizer.Arn}/invocations"
        )
        return {
            "in": "header",
            "type": "apiKey",
            "name": "Authorization",
            "x-amazon-apigateway-authtype": "custom",
            "x-amazon-apigateway-authorizer": {
                "type": "request",
                "authorizerUri": {"Fn::Sub": uri},
                "authorizerResultTtlInSeconds": 0,
            },
        }


AUTHORIZER = GatewayAuthorizer()
NO_STORE = {"Cache-Control": "no-store"}  # of answers that show a secret


class Endpoint(NamedTuple):
    """A view for a method on a path. Its value becomes the JSON body, None no body; a str is JSON already.

    Where `body` is None, a body that is sent is ignored. `response` is the shape of what the view returns,
    `media` the media types of what is not JSON; `errors` are those of its own, beside those of every endpoint like it;
    `permits` raises Forbidden for a caller whom it is not for. With None for its authorizer it is open: it asks neither
    for a token nor for a version, and its caller is ANONYMOUS. `headers` are those of its JSON, beside those of all.
    """

    method: str
    path: str
    status: int
    view: Callable[[Call], dict[str, Any] | str | Static | Binary | Redirect | None]
    body: type[Shape] | None = None
    query: Parameters = {}
    response: type[Shape] | None = None
    errors: tuple[type[ApiError], ...] = ()
    permits: Callable[[Caller], None] = auth.anyone
    authorizer: Authorizer | None = AUTHORIZER
    media: tuple[str, ...] = ()
    headers: Mapping[str, str] = {}


class Routes(Protocol):
    """Anything that has endpoints: a resource, a module."""

    def endpoints(self) -> tuple[Endpoint, ...]: ...


def serve(app: Chalice, routes: Iterable[Routes]) -> None:
    """Register every endpoint with the app, and on every path the gateway's fallback for other methods."""
    paths = {"/": None, ANY_PATH: None}
    for route in routes:
        for endpoint in route.endpoints():
            app.route(endpoint.path, methods=[endpoint.method], content_types=[], authorizer=endpoint.authorizer)(
                _chalice_view(app, endpoint)
            )
            paths[endpoint.path] = None
    for path in paths:
        app.route(path, methods=[ANY_METHOD], content_types=[])(_never)


def _never() -> None:
    """Stand in for the views of fallbacks, which the middleware answers."""


def _chalice_view(app: Chalice, endpoint: Endpoint) -> Callable[..., Response]:
    def view(**path: str) -> Response:
        try:
            request = cast(Request, app.current_request)
            call = _call(request, endpoint, path)
            answer = endpoint.view(call)
            return (
                answer.answer(request)
                if isinstance(answer, Static | Binary | Redirect)
                else _response(request, endpoint, call, answer)
            )
        except Exception as error:
            raise Raised from error

    return view


def _response(request: Request, endpoint: Endpoint, call: Call, answer: dict[str, Any] | str | None) -> Response:
    text = "" if answer is None else answer if isinstance(answer, str) else body.text(answer)
    headers: dict[str, str | list[str]] = {"Content-Type": "application/json", **endpoint.headers}
    if text and call.noted.revision is not None:
        headers["ETag"] = tag = etags.of(call.noted.revision, call.noted.subject, _lasting(answer, text, call.noted))
        if endpoint.method == "GET" and etags.is_known(request.headers.get("if-none-match", ""), tag):
            return Response("", headers, status_code=304)
    return Response(text, headers, status_code=endpoint.status)


def _lasting(answer: Any, text: str, noted: Noted) -> str:
    """Return the JSON of a response as it is from now on, without what it shows only once."""
    return body.text({**answer, **dict.fromkeys(noted.once)}) if noted.once else text


def _call(request: Request, endpoint: Endpoint, path: dict[str, str]) -> Call:
    who = _caller(request) if endpoint.authorizer else ANONYMOUS
    if endpoint.authorizer:
        with suppress(AwsError):  # which is no reason to refuse
            api_keys.note_use(who.key, who.used)
        auth.check_scope(who, scopes.wanted(endpoint.method, endpoint.path))
    content, parameters = _check(request, endpoint, path)
    endpoint.permits(who)
    noted = Noted(log=request.context.setdefault("noted", {}))
    if path:
        links.check_ids(endpoint.path, path)
        noted.log["resource"] = [*path.values()][-1]  # only now: what is no id may be a secret
    base_url, repeatable = links.base_url(request.to_original_event()), _repeatable(request, endpoint, who)
    conditions = Conditions(request.headers.get("if-match"), request.headers.get("if-none-match"))
    return Call(who, _trail(request, who), path, base_url, content, parameters, conditions, repeatable, noted)


def _repeatable(request: Request, endpoint: Endpoint, who: Caller) -> Repeatable | None:
    """Return the request's idempotency key and digest, if it has a key. Raises InvalidRequest.

    The API key is part of the digest: another one may neither see what this one made, nor mean the same by it.
    """
    key = request.headers.get("idempotency-key")
    if key is None or endpoint.method != "POST":
        return None
    if not re.fullmatch(r"[!-~]{1,255}", key):
        raise InvalidRequest("The header 'Idempotency-Key' must hold 1 to 255 visible ASCII characters.")
    sent = f"{who.key} {request.context.get('resourcePath')} {request.uri_params} ".encode()
    return Repeatable(key, hashlib.sha256(sent + cast(bytes, request.raw_body)).hexdigest())


def _trail(request: Request, who: Caller) -> Trail:
    context = request.context
    source_ip = context.get("identity", {}).get("sourceIp") or ""
    return Trail(Actor("api_key", who.key, who.id), context["operationId"], source_ip)


def _caller(request: Request) -> Caller:
    """Return who the gateway's authorizer says is calling; where none stands before the app, the app asks itself."""
    if "authorizer" not in request.context:
        request.context["authorizer"] = auth.authenticate(request.headers).as_context()
    return Caller.from_context(request.context["authorizer"])


def _check(request: Request, endpoint: Endpoint, path: Mapping[str, str]) -> tuple[Shape | None, Mapping[str, Any]]:
    """Read the body and the query. Raises InvalidRequest with the validation errors of both."""
    content, wrong = _body(request, endpoint, path)
    sent = request.to_original_event().get("multiValueQueryStringParameters") or {}
    parameters, also_wrong = query.check(endpoint.query, sent) if sent else ({}, {})
    if wrong or also_wrong:
        raise InvalidRequest.of(wrong | also_wrong)
    return content, parameters


def _body(request: Request, endpoint: Endpoint, path: Mapping[str, str]) -> tuple[Shape | None, dict[str, str]]:
    if endpoint.body is None:
        return None, {}
    values = body.parse(cast(bytes, request.raw_body), request.headers.get("content-type", ""))
    values, misplaced = addresses.without(values, addresses.of(endpoint.method, endpoint.path, path))
    at = ""
    match endpoint.method:
        case "PATCH":
            values = body.changes(endpoint.body, values)
        case "PUT":
            values, at = addresses.unwrapped(values)
    content, wrong = body.read(endpoint.body, values, path)
    return content, {**misplaced, **{f"{at}{field}": rule for field, rule in wrong.items()}}
