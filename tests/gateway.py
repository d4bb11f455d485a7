"""Requests as API Gateway hands them to the functions behind it, and the app reached so: a third transport."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chalice.local import LambdaEventConverter

from app import app
from chalicelib import clock, ids
from chalicelib.http.auth import Caller
from chalicelib.model.accounts import accounts
from infra.local.local_server import Matcher
from tests import records
from tests.transports import Answer, Client

OPERATION_ID = "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"
_CONVERTER = LambdaEventConverter(Matcher(list(app.routes)))


def event(method: str, path: str, headers: Mapping[str, str], body: bytes = b"", **context: Any) -> dict[str, Any]:
    """Return the event that the gateway makes of a request; `context` goes into its requestContext."""
    proxy_event: dict[str, Any] = _CONVERTER.create_lambda_event(
        method=method, path=path, headers={}, body=body or None
    )
    proxy_event["headers"] = dict(headers)
    proxy_event["path"] = path.partition("?")[0]
    proxy_event["requestContext"] |= {"requestId": OPERATION_ID, **context}
    return proxy_event


def answer(event: dict[str, Any]) -> Answer:
    """Return the app's answer to an event."""
    response = app(event, None)
    flat = {**response["headers"], **response["multiValueHeaders"]}
    headers = {k.lower(): v for k, v in flat.items()}
    content = base64.b64decode(response["body"]) if response.get("isBase64Encoded") else response["body"].encode()
    return Answer(response["statusCode"], headers, response["body"], content)


@dataclass(frozen=True)
class Gateway:
    """The app behind a gateway whose authorizer says who is calling."""

    caller: Caller
    base_url = "http://localhost"

    def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        return answer(event(method, path, headers, body, authorizer=self.caller.as_context()))


def admin() -> Client:
    """Return a client for the admin of a new account without an API key: the event's context says who calls."""
    account = accounts.new_account(ids.new("name"))
    user = accounts.new_user(account.id, "admin", admin=True)
    records.create(account, user)
    return client(account.id, user.id, admin=True)


def client(account: str, user: str, version: str = "2", *, admin: bool) -> Client:
    """Return a client for a user without an API key; used a moment ago, so that no request notes its use."""
    caller = Caller(account, user, admin, version, used=clock.seconds())
    return Client(Gateway(caller), account=account, user=user)
