"""Reads without botocore's pipeline, which takes most of their CPU time, for a process that reads much.

A read that fails in any way is left to botocore, which repeats it and translates its errors.
"""

import hashlib
import hmac
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError

from chalicelib.storage.client.transport import Transport

OPERATIONS = {"batch_get_item": "BatchGetItem", "get_item": "GetItem", "query": "Query", "decrypt": "Decrypt"}
_ALGORITHM = "AWS4-HMAC-SHA256"


class Credentials(Protocol):
    """Credentials of AWS. Only temporary ones have a token."""

    @property
    def access_key(self) -> str: ...

    @property
    def secret_key(self) -> str: ...

    @property
    def token(self) -> str | None: ...


@dataclass(frozen=True)
class Target:
    """A service in a region, as signatures name it."""

    service: str
    region: str


class DirectReader:
    """Sends reads of one botocore client to `host`. Handlers of provide-client-params still see them.

    `find_credentials` returns the credentials of the moment, or None. `parse` returns the JSON object in a body, or
    None. Both can raise ValueError or BotoCoreError.
    """

    def __init__(
        self,
        client: Any,
        host: str,
        find_credentials: Callable[[], Credentials | None],
        parse: Callable[[bytes], dict[str, Any] | None],
    ) -> None:
        self._client, self._find_credentials, self._parse = client, find_credentials, parse
        self._model = model = client.meta.service_model
        self._event = f"provide-client-params.{model.service_id.hyphenize()}"
        self._target = Target(model.signing_name, client.meta.region_name)
        self._headers = {
            "Content-Type": f"application/x-amz-json-{model.metadata['jsonVersion']}",
            "Host": host,
            "User-Agent": client.meta.config.user_agent,
        }

    def read(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any] | None:
        """Return the answer to a read, or None if botocore must send it."""
        name, transport = OPERATIONS[operation], self._client._endpoint.http_session
        if not isinstance(transport, Transport):  # a proxy or other authorities are configured
            return None
        model = self._model.operation_model(name)
        self._client.meta.events.emit(f"{self._event}.{name}", params=parameters, model=model, context={})
        body = json.dumps(parameters, default=_encode).encode()
        headers = self._headers | {"X-Amz-Target": f"{self._model.metadata['targetPrefix']}.{name}"}
        try:
            if (credentials := self._find_credentials()) is None:
                return None
            signed = headers | sign(self._target, credentials, headers, body, datetime.now(UTC))
            answer = transport.exchange(_write(signed, body))
            return self._decode(answer or b"")
        except (BotoCoreError, ValueError):
            return None

    def _decode(self, body: bytes) -> dict[str, Any] | None:
        """Return the values of an answer, or None if it has none. Raises ValueError for malformed ones."""
        answer = self._parse(body)
        if answer and isinstance(text := answer.get("Plaintext"), str):
            answer["Plaintext"] = b64decode(text, validate=True)
        return answer or None


def sign(
    target: Target, credentials: Credentials, headers: Mapping[str, str], body: bytes, at: datetime
) -> dict[str, str]:
    """Return the headers that sign a POST to the path / with AWS's signature version 4."""
    date = at.strftime("%Y%m%dT%H%M%SZ")
    added = {"X-Amz-Date": date} | ({"X-Amz-Security-Token": credentials.token} if credentials.token else {})
    signed = sorted((name.lower(), value) for name, value in {**headers, **added}.items() if name != "User-Agent")
    names = ";".join(name for name, _ in signed)
    lines = "".join(f"{name}:{value}\n" for name, value in signed)
    request = f"POST\n/\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    scope = f"{date[:8]}/{target.region}/{target.service}/aws4_request"
    text = f"{_ALGORITHM}\n{date}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    signature = hmac.digest(_derive_key(credentials.secret_key, date[:8], target), text.encode(), "sha256").hex()
    named = f"Credential={credentials.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    return added | {"Authorization": f"{_ALGORITHM} {named}"}


@lru_cache(8)
def _derive_key(secret: str, day: str, target: Target) -> bytes:
    """Return the key that signs requests to a target on a day."""
    key = f"AWS4{secret}".encode()
    for part in (day, target.region, target.service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def _write(headers: Mapping[str, str], body: bytes) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST / HTTP/1.1\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode("ascii") + body


def _encode(value: bytes) -> str:
    return b64encode(value).decode()
