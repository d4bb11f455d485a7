"""Calls without botocore's pipeline. The pipeline takes most of the CPU time of a call.

If such a call fails in any other way than by a false condition, botocore repeats it and translates its errors. So a
write is repeated if its answer is lost, the same as in botocore.
"""

import hashlib
import hmac
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from botocore.auth import SIGV4_TIMESTAMP
from botocore.compat import get_current_datetime
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import BotoCoreError, ClientError

from chalicelib.storage.client.transport import DirectAnswer, Transport

OPERATIONS = {
    "batch_get_item": "BatchGetItem",
    "decrypt": "Decrypt",
    "delete_item": "DeleteItem",
    "get_item": "GetItem",
    "put_item": "PutItem",
    "query": "Query",
    "update_item": "UpdateItem",
}
# operations with answers that may be empty; an empty answer of any other operation is incomplete
_EMPTY = frozenset(("DeleteItem", "GetItem", "PutItem", "UpdateItem"))
CONDITION_FALSE = "ConditionalCheckFailedException"  # the code of the error about a false condition
_ALGORITHM = "AWS4-HMAC-SHA256"


class DirectCaller:
    """Sends calls of a botocore client directly to `host`.

    `find_credentials` returns the current credentials, or None. `parse` returns the JSON object in a body, or None.
    Both can raise ValueError or BotoCoreError. Only botocore's handlers of the event provide-client-params still run.
    """

    def __init__(
        self,
        client: Any,
        host: str,
        find_credentials: Callable[[], ReadOnlyCredentials | None],
        parse: Callable[[bytes], dict[str, Any] | None],
    ) -> None:
        self._client, self._find_credentials, self._parse = client, find_credentials, parse
        self._model = model = client.meta.service_model
        self._event = f"provide-client-params.{model.service_id.hyphenize()}"
        self._service, self._region = model.signing_name, client.meta.region_name
        self._headers = {
            "Content-Type": f"application/x-amz-json-{model.metadata['jsonVersion']}",
            "Host": host,
        }
        self._user_agent: str = client.meta.config.user_agent

    def call(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any] | None:
        """Return the answer to a call. Return None if the call failed, or if only botocore can send it.

        Raises ClientError if the condition of a write is false.
        """
        answers = self.call_each(operation, [parameters])
        return answers[0] if answers else None

    def call_each(self, operation: str, calls: Sequence[dict[str, Any]]) -> list[dict[str, Any]] | None:
        """Send calls with the given parameters at the same time. Return their answers.

        Return None if a call failed, or if only botocore can send the calls. Raises ClientError if the condition of a
        write is false.
        """
        name, transport = OPERATIONS[operation], self._client._endpoint.http_session
        if not isinstance(transport, Transport):  # botocore uses a proxy or other certificate authorities
            return None
        model = self._model.operation_model(name)
        for parameters in calls:
            self._client.meta.events.emit(f"{self._event}.{name}", params=parameters, model=model, context={})
        bodies = [json.dumps(parameters, default=_encode).encode() for parameters in calls]
        headers = self._headers | {"X-Amz-Target": f"{self._model.metadata['targetPrefix']}.{name}"}
        try:
            if (credentials := self._find_credentials()) is None:
                return None
            answers = transport.exchange([_write(self._sign(credentials, headers, body), body) for body in bodies])
            decoded = [fields for answer in answers or () if (fields := self._decode(name, answer)) is not None]
            return decoded if len(decoded) == len(calls) else None
        except (BotoCoreError, ValueError):
            return None

    def _sign(self, credentials: ReadOnlyCredentials, headers: dict[str, str], body: bytes) -> Mapping[str, str]:
        """Return the headers with a signature (AWS Signature Version 4).

        This method saves time: botocore would parse the headers as an e-mail several times, and derive the signing key
        of the day again for each request.
        """
        timestamp = get_current_datetime().strftime(SIGV4_TIMESTAMP)
        scope = f"{timestamp[:8]}/{self._region}/{self._service}/aws4_request"
        token = {"X-Amz-Security-Token": credentials.token} if credentials.token else {}
        signed = {name.lower(): value for name, value in (headers | token | {"X-Amz-Date": timestamp}).items()}
        names = ";".join(sorted(signed))
        fields = (f"{name}:{signed[name]}" for name in sorted(signed))
        canonical = "\n".join(("POST", "/", "", *fields, "", names, hashlib.sha256(body).hexdigest()))
        text = "\n".join((_ALGORITHM, timestamp, scope, hashlib.sha256(canonical.encode()).hexdigest()))
        signature = _hmac(_derive_key(credentials.secret_key, *scope.split("/")), text).hex()
        authorization = f"{_ALGORITHM} Credential={credentials.access_key}/{scope}, SignedHeaders={names}"
        return signed | {"user-agent": self._user_agent, "authorization": f"{authorization}, Signature={signature}"}

    def _decode(self, name: str, answer: DirectAnswer) -> dict[str, Any] | None:
        """Return the fields of an answer. Return None for an error, or if fields of the operation `name` are missing.

        Raises ClientError for a false condition, ValueError for malformed base64.
        """
        fields = self._parse(answer.body)
        if fields is None or not answer.is_success:
            if fields and str(fields.get("__type")).rpartition("#")[2] == CONDITION_FALSE:
                raise ClientError({"Error": {"Code": CONDITION_FALSE}}, name)
            return None
        if isinstance(text := fields.get("Plaintext"), str):
            fields["Plaintext"] = b64decode(text, validate=True)
        return fields if fields or name in _EMPTY else None


@lru_cache(maxsize=8)
def _derive_key(secret_key: str, *scope: str) -> bytes:
    """Return the signing key of a scope. The parts of the scope are a day, a region, a service and a constant."""
    key = f"AWS4{secret_key}".encode()
    for part in scope:
        key = _hmac(key, part)
    return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")


def _write(headers: Mapping[str, str], body: bytes) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST / HTTP/1.1\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode("ascii") + body


def _encode(value: bytes) -> str:
    return b64encode(value).decode()
