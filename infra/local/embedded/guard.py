"""Access to the embedded cloud: the emulator itself asks for no credentials, and answers any web page.

Only who sends the access key id of this cloud's folder, which no other user and no page of another origin can know.
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
_CONTROL = "/_"  # what the emulator's own paths begin with: reset, configuration, files, mail that was sent
_DEPLOYED_API = re.compile(r"/restapis/[^/]+/[^/]+/_user_request_(?:/|$)")
_HERE = re.compile(r"(?:127\.0\.0\.1|localhost)(?::\d+)?")
_CREDENTIAL = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/,\s]+)/")
_MESSAGE = "This cloud belongs to a folder: send the access key id that stands in that folder's cloud.env."


@dataclass(frozen=True)
class Guard:
    """The ASGI application around the emulator's.

    `functions_path` is where the functions of a cloud with policies reach it, with credentials that it issued them:
    those can be calculated, so a secret path stands before theirs. Without functions it is empty.
    """

    app: App
    key_id: str
    functions_path: str = ""
    is_issued: Callable[[str], bool] = lambda key_id: False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http" and (admitted := self._admitted(scope)) is not None:
            await self.app(admitted, receive, _without_cors(send))
        else:
            await _refuse(scope, send)

    def _admitted(self, scope: Scope) -> Scope | None:
        """Return the request as the emulator is to see it; None for one that is refused."""
        path, headers = scope["path"], list(scope["headers"])
        if self.functions_path and _DEPLOYED_API.match(path):
            # The deployed API, which authenticates by itself. The emulator looks at the host before the path.
            return scope if _HERE.fullmatch(_only(headers, b"host")) else None
        if any(name == b"origin" for name, _ in headers):
            return None
        if self.functions_path and f"{path}/".startswith(f"{self.functions_path}/"):
            # The functions' signature covers the path they sent: it stays the raw one.
            inner = {**scope, "path": path.removeprefix(self.functions_path) or "/"}
            return inner if self._is_function(inner) else None
        return scope if path in HEALTH or self._is_owner(scope) else None

    def _is_owner(self, scope: Scope) -> bool:
        given = _given_key_id(scope["headers"]).encode()
        return hmac.compare_digest(given, self.key_id.encode()) and not scope["path"].startswith(_CONTROL)

    def _is_function(self, scope: Scope) -> bool:
        return self.is_issued(_given_key_id(scope["headers"])) and not scope["path"].startswith(_CONTROL)


def _only(headers: Headers, name: bytes) -> str:
    """Return the value of a header that is there once, else ""."""
    values = [value for header, value in headers if header == name]
    return values[0].decode("latin-1") if len(values) == 1 else ""


def _given_key_id(headers: Headers) -> str:
    found = _CREDENTIAL.match(_only(headers, b"authorization"))
    return found[1] if found else ""


def _without_cors(send: Send) -> Send:
    """Send answers without the headers by which the emulator lets any page read them."""

    async def sending(message: MutableMapping[str, Any]) -> None:
        kept = [header for header in message.get("headers", ()) if not header[0].lower().startswith(b"access-control-")]
        await send({**message, "headers": kept} if "headers" in message else message)

    return sending


async def _refuse(scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    target = _only(scope["headers"], b"x-amz-target")
    content_type, body = errors.body("UnrecognizedClientException", _MESSAGE, target)
    headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 403, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
