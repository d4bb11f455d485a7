"""Endpoints as plain tuples, and the one path from a request to a view.

Every request passes the same steps in the contract's order: route, token, version, body, fields; then its view.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

from chalice.app import Authorizer, Chalice, Request, Response

from chalicelib.api import body, caller, fields, links, query
from chalicelib.api.caller import NOBODY, Caller
from chalicelib.api.errors import InvalidRequest, Refusal
from chalicelib.api.fields import Shape
from chalicelib.api.middleware import ANY_METHOD, ANY_PATH, Raised
from chalicelib.api.page import Page
from chalicelib.api.query import Parameters


@dataclass(frozen=True)
class Call:
    """One request as its view sees it: who calls, the path's values, and the body in its shape, the query read."""

    caller: Caller
    path: dict[str, str]
    base_url: str
    body: Any
    query: Mapping[str, Any]

    @property
    def id(self) -> str:
        """The last value in the path: the id of what the request is about."""
        return next(reversed(self.path.values()))


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


class Endpoint(NamedTuple):
    """What answers a method on a path: the view's value becomes the JSON body, None becomes no body, a Page is sent.

    A text is the JSON body already.

    Without a shape for it, a body that is sent is not looked at. `shows` is the shape of what the view returns,
    `refuses` are the refusals of its own, beside those of every endpoint like it. With None for its authorizer it is
    open: it asks neither for a token nor for a version, and its caller is NOBODY.
    """

    method: str
    path: str
    status: int
    view: Callable[[Call], dict[str, Any] | str | Page | None]
    body: type[Shape] | None = None
    query: Parameters = {}
    shows: type[Shape] | None = None
    refuses: tuple[type[Refusal], ...] = ()
    authorizer: Authorizer | None = AUTHORIZER


class Offer(Protocol):
    """Anything that has endpoints: a resource, a module."""

    def endpoints(self) -> tuple[Endpoint, ...]: ...


def serve(app: Chalice, offers: Iterable[Offer]) -> None:
    """Register every endpoint with the app, and on every path the gateway's fallback for other methods."""
    paths = {"/": None, ANY_PATH: None}
    for offer in offers:
        for endpoint in offer.endpoints():
            app.route(endpoint.path, methods=[endpoint.method], content_types=[], authorizer=endpoint.authorizer)(
                _chalice_view(app, endpoint)
            )
            paths[endpoint.path] = None
    for path in paths:
        app.route(path, methods=[ANY_METHOD], content_types=[])(_never)


def _never() -> None:
    """Stands for the fallbacks, which the middleware answers."""


def _chalice_view(app: Chalice, endpoint: Endpoint) -> Callable[..., Response]:
    def view(**path: str) -> Response:
        try:
            request = cast(Request, app.current_request)
            answer = endpoint.view(_call(request, endpoint, path))
        except Exception as error:
            raise Raised from error
        if isinstance(answer, Page):
            return answer.answer(request)
        return Response(answer, headers={"Content-Type": "application/json"}, status_code=endpoint.status)

    return view


def _call(request: Request, endpoint: Endpoint, path: dict[str, str]) -> Call:
    who = _caller(request) if endpoint.authorizer else NOBODY
    asked, parameters = _check(request, endpoint, path)
    return Call(who, path, links.base_url(request.to_original_event()), asked, parameters)


def _caller(request: Request) -> Caller:
    """Who the gateway's authorizer says is calling; where none stands before the app, the app asks itself."""
    if "authorizer" not in request.context:
        request.context["authorizer"] = caller.authenticate(request.headers).as_context()
    return Caller.from_context(request.context["authorizer"])


def _check(request: Request, endpoint: Endpoint, path: Mapping[str, str]) -> tuple[Shape | None, Mapping[str, Any]]:
    """The body and the query, or one refusal that names every fault of both."""
    asked, body_faults = _body(request, endpoint, path)
    given = request.to_original_event().get("multiValueQueryStringParameters") or {}
    parameters, query_faults = query.check(endpoint.query, given)
    if faults := body_faults | query_faults:
        raise InvalidRequest.of(faults)
    return asked, parameters


def _body(request: Request, endpoint: Endpoint, path: Mapping[str, str]) -> tuple[Shape | None, dict[str, str]]:
    if endpoint.body is None:
        return None, {}
    values = body.parse(cast(bytes, request.raw_body), request.headers.get("content-type", ""))
    own_id = [*path.values()][-1:]
    is_another = endpoint.method == "PATCH" and [values.pop("id", *own_id)] != own_id
    asked, faults = fields.check(endpoint.body, values, path)
    return asked, {**faults, "id": "must be the id in the path, or absent"} if is_another else faults
