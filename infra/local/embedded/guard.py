"""Access control for the embedded cloud: the emulator itself would answer any user and any web page.

Requests must have the access key id that is stored in this cloud's folder, which other users and pages cannot read.
"""

import hmac
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

from infra.local.embedded import errors

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]

HEALTH = ("/_ministack/health", "/_localstack/health")
_CONTROL = "/_"  # the prefix of the emulator's control paths: reset, configuration, files, sent mail
_DEPLOYED_API = re.compile(r"/restapis/[^/]+/[^/]+/_user_request_(?:/|$)")
_HERE = re.compile(r"(?:127\.0\.0\.1|localhost)(?::\d+)?")
_CREDENTIAL = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/,\s]+)/")
_MESSAGE = "The access key id is wrong: send the one in cloud.env, in the data folder of 'make run' or 'make cloud'."


@dataclass(frozen=True)
class Guard:
    """The ASGI application around the emulator, which refuses requests without the right credentials.

    Lambda functions that run in the emulator call it below `functions_path`, with credentials that the emulator has
    issued. Other users of the machine could compute such credentials, so this path is secret. The path is "" if there
    are no functions.
    """

    app: App
    key_id: str
    functions_path: str = ""
    is_issued: Callable[[str], bool] = lambda key_id: False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http" and (admitted := self._admit(scope)) is not None:
            await self.app(admitted, receive, _drop_cors(send))
        else:
            await _refuse(scope, send)

    def _admit(self, scope: Scope) -> Scope | None:
        """Return the request for the emulator, or None if it is refused."""
        path, headers = scope["path"], list(scope["headers"])
        if self.functions_path and _DEPLOYED_API.match(path):
            # A request to the deployed API needs no access key id, because this API authenticates its callers. Its host
            # is checked, because the emulator chooses the AWS service by the host.
            return scope if _HERE.fullmatch(_read_single(headers, b"host")) else None
        if any(name == b"origin" for name, _ in headers):
            return None
        if self.functions_path and f"{path}/".startswith(f"{self.functions_path}/"):
            # `raw_path` still contains `functions_path`, because the Lambda function's signature includes it.
            inner = {**scope, "path": path.removeprefix(self.functions_path) or "/"}
            return inner if self._is_function(inner) else None
        return scope if path in HEALTH or self._is_owner(scope) else None

    def _is_owner(self, scope: Scope) -> bool:
        key_id = _key_id(scope["headers"]).encode()
        return hmac.compare_digest(key_id, self.key_id.encode()) and not scope["path"].startswith(_CONTROL)

    def _is_function(self, scope: Scope) -> bool:
        return self.is_issued(_key_id(scope["headers"])) and not scope["path"].startswith(_CONTROL)


def _read_single(headers: Headers, name: bytes) -> str:
    """Return the value of a header that occurs exactly once, else ""."""
    values = [value for header, value in headers if header == name]
    return values[0].decode("latin-1") if len(values) == 1 else ""


def _key_id(headers: Headers) -> str:
    match = _CREDENTIAL.match(_read_single(headers, b"authorization"))
    return match[1] if match else ""


def _drop_cors(send: Send) -> Send:
    """Return a `send` that drops CORS headers, with which any web page could read responses."""

    async def send_filtered(message: MutableMapping[str, Any]) -> None:
        headers = [
            header for header in message.get("headers", ()) if not header[0].lower().startswith(b"access-control-")
        ]
        await send({**message, "headers": headers} if "headers" in message else message)

    return send_filtered


async def _refuse(scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    target = _read_single(scope["headers"], b"x-amz-target")
    content_type, body = errors.body("UnrecognizedClientException", _MESSAGE, target)
    headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 403, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
