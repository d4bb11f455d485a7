"""Requests in API Gateway's form for the API's function, answered in this process."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from chalice.local import LambdaEventConverter

from app import app
from bench import signing
from chalicelib.http import auth
from infra.local.local_server import Matcher

_CONVERTER = LambdaEventConverter(Matcher(list(app.routes)))


def headers(token: str) -> dict[str, str]:
    """Return the headers of every request."""
    return {
        "Authorization": f"Bearer {token}",
        "Service-Version": auth.VERSIONS[0],
        "Content-Type": "application/json",
    }


def event(
    method: str, path: str, token: str, body: Any = None, context: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the event of a request. Without the authorizer's `context` the app reads the caller from the store."""
    content: dict[str, Any] = _CONVERTER.create_lambda_event(method=method, path=path, headers={})
    text = None if body is None else json.dumps(body)
    content |= {"headers": headers(token), "path": path.partition("?")[0], "body": text}
    content["requestContext"] |= {"requestId": "benchmark", **({"authorizer": dict(context)} if context else {})}
    return content


def answer(event: Mapping[str, Any]) -> Any:
    """Return the body of the app's answer. Raises RuntimeError for an error.

    The app gets a copy of the event, because it stores the caller in it and would skip the read next time.
    """
    answered = app({**event, "requestContext": dict(event["requestContext"])}, None)
    if answered["statusCode"] >= 300:
        raise RuntimeError(answered["body"])
    return json.loads(answered["body"] or "null")


def create(path: str, token: str, body: Any) -> Any:
    """Create a resource and return it."""
    return answer(event("POST", path, token, body))


def usual(token: str, context: Mapping[str, str] | None = None) -> dict[str, Callable[[int], dict[str, Any]]]:
    """Return functions that make the usual requests. Their argument makes each change different.

    This creates 101 backends, and an authority that has signed, so that its decrypted key is cached.
    """
    backends, certificates = "/backends/weighted", "/ssh_user_certificates"
    for _ in range(101):
        id = create(backends, token, {"backends": {"bkdhr_" + "0" * 27: 1}})["id"]
    certificate = signing.request(create("/ssh_certificate_authorities", token, {})["id"])
    create(certificates, token, certificate)
    return {
        "get": lambda _: event("GET", f"{backends}/{id}", token, context=context),
        "list of 100": lambda _: event("GET", backends, token, context=context),
        "create": lambda _: event("POST", backends, token, {}, context),
        "change": lambda number: event("PATCH", f"{backends}/{id}", token, {"description": str(number)}, context),
        "certificate": lambda _: event("POST", certificates, token, certificate, context),
    }
