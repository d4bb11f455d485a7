"""Endpoints as plain tuples, and the one path from a request to a view.

Every request passes the same steps in the contract's order: route, token, version, body, fields, permission; then its
view.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

from chalice.app import Authorizer, Chalice, Request, Response

from chalicelib.http import auth, body, links, query
from chalicelib.http.auth import ANONYMOUS, Caller
from chalicelib.http.errors import ApiError, InvalidRequest
from chalicelib.http.middleware import ANY_METHOD, ANY_PATH, Raised
from chalicelib.http.query import Parameters
from chalicelib.http.static import Binary, Static
from chalicelib.schema.shapes import Shape


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
        """The id of what the request is about: the last value in the path."""
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
    """What answers a method on a path: the view's value becomes the JSON body, None no body; a str is JSON already.

    Without a shape for it, a body that is sent is not looked at. `response` is the shape of what the view returns,
    `media` the media types of what is not JSON; `errors` are those of its own, beside those of every endpoint like it;
    `permits` raises Forbidden for a caller whom it is not for. With None for its authorizer it is open: it asks neither
    for a token nor for a version, and its caller is ANONYMOUS.
    """

    method: str
    path: str
    status: int
    view: Callable[[Call], dict[str, Any] | str | Static | Binary | None]
    body: type[Shape] | None = None
    query: Parameters = {}
    response: type[Shape] | None = None
    errors: tuple[type[ApiError], ...] = ()
    permits: Callable[[Caller], None] = auth.anyone
    authorizer: Authorizer | None = AUTHORIZER
    media: tuple[str, ...] = ()


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
    """Stands for the fallbacks, which the middleware answers."""


def _chalice_view(app: Chalice, endpoint: Endpoint) -> Callable[..., Response]:
    def view(**path: str) -> Response:
        try:
            request = cast(Request, app.current_request)
            answer = endpoint.view(_call(request, endpoint, path))
        except Exception as error:
            raise Raised from error
        if isinstance(answer, Static | Binary):
            return answer.answer(request)
        return Response(answer, headers={"Content-Type": "application/json"}, status_code=endpoint.status)

    return view


def _call(request: Request, endpoint: Endpoint, path: dict[str, str]) -> Call:
    who = _caller(request) if endpoint.authorizer else ANONYMOUS
    content, parameters = _check(request, endpoint, path)
    endpoint.permits(who)
    if path:
        links.check_ids(endpoint.path, path)
    return Call(who, path, links.base_url(request.to_original_event()), content, parameters)


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
    own_id = [*path.values()][-1:]
    is_another = endpoint.method == "PATCH" and [values.pop("id", *own_id)] != own_id
    content, wrong = body.read(endpoint.body, values, path)
    return content, {**wrong, "id": "must be the id in the path, or absent"} if is_another else wrong
