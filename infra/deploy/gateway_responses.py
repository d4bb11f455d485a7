"""The API gateway's error responses, with the same body as the API's errors."""

import json
from typing import Any

from chalicelib.http import errors
from chalicelib.http.errors import ApiError

_INTERNAL = errors.InternalError()
_UNAVAILABLE = errors.ServiceUnavailable()
_NO_ROUTE = errors.NoSuchRoute("No such path, or no such method on it.")
_NO_TOKEN = errors.Unauthenticated(
    "Send the header 'Authorization: Bearer <token of an API key>'. The key must exist, and its id is not its token."
)
_INVALID = errors.InvalidRequest("The gateway cannot parse the request: check its parameters, headers and body.")
_TOO_MANY = errors.RateLimited("Too many requests at once; try again in a second.")

RESPONSES: dict[str, ApiError] = {
    "ACCESS_DENIED": errors.RateLimited(  # the authorizer denies only addresses that send too many requests
        "Your address sends too many requests without a valid token: try again after the time in Retry-After."
    ),
    "API_CONFIGURATION_ERROR": _INTERNAL,
    # AWS documents both AUTHORIZER types for an authorizer that fails, for example because it cannot read DynamoDB.
    "AUTHORIZER_CONFIGURATION_ERROR": _UNAVAILABLE,
    "AUTHORIZER_FAILURE": _UNAVAILABLE,
    "BAD_REQUEST_BODY": _INVALID,
    "BAD_REQUEST_PARAMETERS": _INVALID,
    "DEFAULT_4XX": _INVALID,
    "DEFAULT_5XX": _INTERNAL,
    "EXPIRED_TOKEN": _NO_TOKEN,
    "INTEGRATION_FAILURE": _INTERNAL,
    "INTEGRATION_TIMEOUT": _UNAVAILABLE,
    "INVALID_API_KEY": _NO_TOKEN,
    # API Gateway reports an invalid signature if a path has no route and the request has an Authorization header.
    "INVALID_SIGNATURE": _NO_ROUTE,
    "MISSING_AUTHENTICATION_TOKEN": _NO_ROUTE,
    "QUOTA_EXCEEDED": _TOO_MANY,
    "REQUEST_TOO_LARGE": errors.PayloadTooLarge("The body is larger than the 10 MiB that the gateway accepts."),
    "RESOURCE_NOT_FOUND": _NO_ROUTE,
    "THROTTLED": _TOO_MANY,
    "UNAUTHORIZED": _NO_TOKEN,
    "UNSUPPORTED_MEDIA_TYPE": errors.UnsupportedMediaType(
        "Send the body as JSON, as 'Content-Type: application/json'."
    ),
    "WAF_FILTERED": errors.Forbidden("The firewall (AWS WAF) refused the request: ask the operator for its rules."),
}


def build_extension() -> dict[str, Any]:
    """Return the error responses as an extension of the API's OpenAPI definition.

    Separate resources of the stack could miss the first deployment of the API. A part of its definition cannot.
    """
    return {
        name: {
            "statusCode": refusal.status,
            "responseParameters": {
                f"gatewayresponse.header.{header}": value for header, value in _headers(refusal).items()
            },
            "responseTemplates": {"application/json": _body(refusal)},
        }
        for name, refusal in RESPONSES.items()
    }


def build_resources() -> dict[str, Any]:
    """Return the error responses as resources of a stack, for emulated clouds that ignore `build_extension`."""
    return {
        f"Response{name.title().replace('_', '')}": {
            "Type": "AWS::ApiGateway::GatewayResponse",
            "Properties": {
                "RestApiId": {"Ref": "RestAPI"},
                "ResponseType": name,
                "StatusCode": str(response["statusCode"]),
                "ResponseParameters": response["responseParameters"],
                "ResponseTemplates": response["responseTemplates"],
            },
        }
        for name, response in build_extension().items()
    }


def _headers(refusal: ApiError) -> dict[str, str]:
    fixed = {name: f"'{value}'" for name, value in refusal.headers.items()}
    always = {name: f"'{value}'" for name, value in errors.ALWAYS.items()}
    return {"Operation-Id": "context.requestId", **always, **fixed}


def _body(refusal: ApiError) -> str:
    return json.dumps(
        {
            "error_code": refusal.code,
            "status_code": refusal.status,
            "msg": refusal.message,
            "details": {"operation_id": "$context.requestId"},
        }
    )
