"""Requests as API Gateway hands them to the functions behind it."""

import json
from collections.abc import Mapping
from typing import Any

from chalice.local import LambdaEventConverter

from app import app
from infra.local_server import Matcher
from tests.doors import Answer


def event(method: str, path: str, headers: Mapping[str, str], body: Any = None, **context: Any) -> dict[str, Any]:
    """The event of a request, with what the gateway knows of it in its context."""
    raw = None if body is None else json.dumps(body).encode()
    made: dict[str, Any] = LambdaEventConverter(Matcher(list(app.routes))).create_lambda_event(
        method=method, path=path, headers={}, body=raw
    )
    made["path"] = path.partition("?")[0]
    made["headers"] = {**headers, "Host": "api.example", "X-Forwarded-Proto": "https"}
    made["requestContext"] |= {"requestId": "c6af9ac6-7b61-11e6-9a41-93e8deadbeef", **context}
    return made


def answer(event: dict[str, Any]) -> Answer:
    """What the app answers to an event."""
    answered = app(event, None)
    flat = {**answered["headers"], **answered["multiValueHeaders"]}
    return Answer(answered["statusCode"], {k.lower(): v for k, v in flat.items()}, answered["body"])
