"""AWS clients, created on first use, and errors for a store that is unavailable or misconfigured."""

import json
import math
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from botocore import exceptions, handlers
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session, get_session

from chalicelib.storage import answers, models, parameters, transport

# A call takes at most 15 seconds: three attempts of four seconds and three seconds of pauses. If it begins within these
# seconds, it ends before the gateway's timeout of 29.
_DEADLINE = 13
_CONFIG = Config(
    connect_timeout=1,
    read_timeout=3,
    retries={"mode": "standard", "total_max_attempts": 3},
    max_pool_connections=64,
    tcp_keepalive=True,
    parameter_validation=False,  # the service validates, and its refusal is Misconfigured too
)
_BUSY = {
    "DependencyTimeoutException",
    "InternalServerError",
    "KMSInternalException",
    "KeyUnavailableException",
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "RequestTimeout",
    "ServiceUnavailable",
    "ThrottlingException",
    "TransactionConflictException",
    "TransactionInProgressException",
}
_UNREACHABLE = (exceptions.ConnectionError, exceptions.HTTPClientError, exceptions.IncompleteReadError)
_MISCONFIGURED = {
    "AccessDeniedException",
    "DisabledException",
    "ExpiredTokenException",
    "InvalidSignatureException",
    "KMSInvalidStateException",
    "NotFoundException",
    "ResourceNotFoundException",
    "UnrecognizedClientException",
}

_clients: dict[str, Any] = {}
_lock = threading.Lock()
_last_call: ContextVar[float] = ContextVar("last_call", default=math.inf)


class AwsError(Exception):
    """A call to AWS failed. `code` names the error and never contains data of the request."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Unavailable(AwsError):
    """DynamoDB or KMS is throttling, down or unreachable."""


class Misconfigured(AwsError):
    """The credentials, region, profile, table, key or permissions are wrong, or the request is malformed."""


def client(service: str) -> Any:
    """Return the client of a service ("dynamodb", "kms"), one per process.

    It calls AWS_ENDPOINT_URL if that is set, else the emulator at LOCALSTACK_HOST if that is set, else AWS.
    """
    if service not in _clients:
        with _lock:  # creating clients of one session is not thread-safe
            if service not in _clients:
                _clients[service] = _connect(service)
    return _clients[service]


def call(service: str, operation: str, **parameters: Any) -> dict[str, Any]:
    """Call a service and return its answer. Raises Unavailable, Misconfigured, ClientError for a refusal."""
    if time.monotonic() > _last_call.get():
        raise Unavailable("OutOfTime")
    try:
        answer: dict[str, Any] = getattr(client(service), operation)(**parameters)
    except (BotoCoreError, ClientError) as error:
        raise _translate(error) from None
    return answer


def endpoint() -> str:
    """Return the endpoint of calls without any credentials of its URL; "AWS" if none is set."""
    named = os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("LOCALSTACK_HOST")
    return named.rpartition("@")[2] if named else "AWS"


def region() -> str:
    """Return the configured region, or "none"."""
    try:
        return _session().get_config_variable("region") or "none"
    except BotoCoreError:  # the named profile does not exist
        return "none"


def _connect(service: str) -> Any:
    config = _CONFIG.merge(Config(user_agent=_session().user_agent()))  # else botocore builds it twice per call
    if os.environ.get("LOCALSTACK_HOST") and not os.environ.get("AWS_ENDPOINT_URL"):
        from localstack_client.session import Session as LocalStack  # only in the development environment

        made = LocalStack().client(service, config=config)
    else:
        made = _session().create_client(service, config=config)
    name = made.meta.service_model.service_id.hyphenize()
    made.meta.events.register_first(f"before-parse.{name}", answers.blank_unreadable)
    made.meta.events.unregister("request-created", handlers.add_retry_headers)  # no service uses them
    made.meta.events.register_first(f"before-call.{name}", _set_host)
    made.meta.events.register_first(f"needs-retry.{name}", _retry_truncated)
    made.meta.events.register_first(f"needs-retry.{name}", _retry_conflict)
    if service == "dynamodb":
        for operation in answers.OPERATIONS:
            made.meta.events.register_first(f"before-parse.dynamodb.{operation}", answers.parse)
        made.meta.events.register_last("before-parameter-build", parameters.take)
        made.meta.events.register_first(f"before-call.dynamodb.{parameters.OPERATION}", parameters.put)
    return made


@cache
def _session() -> Session:
    """Return the session of all clients. It is botocore's: importing boto3 takes 40 ms more."""
    session = get_session()
    models.install(session)
    transport.install(session)
    return session


def _set_host(params: dict[str, Any], **_: object) -> None:
    """Set the Host header, which botocore's signer would otherwise compute twice per request."""
    params["headers"]["Host"] = _host(params["url"])


@cache
def _host(address: str) -> str:
    """Return the Host header of an address: with its port, unless that is the default one."""
    scheme, netloc = urlsplit(address)[:2]
    return netloc.rpartition("@")[2].lower().removesuffix({"http": ":80", "https": ":443"}[scheme])


def _retry_truncated(response: tuple[Any, dict[str, Any]] | None, operation: Any, **_: object) -> None:
    """Retry a truncated answer. botocore would read it as "nothing found" or "done"."""
    if response and not _is_complete(*response, operation):
        answer, parsed = response
        answer.status_code = 503
        parsed["Error"] = {"Code": "ServiceUnavailable"}


def _is_complete(answer: Any, parsed: Mapping[str, Any], operation: Any) -> bool:
    """Return whether an answer is complete: Content-Length, and JSON if the operation has an output."""
    content = answer.content
    if len(content) != int(answer.headers.get("Content-Length") or len(content)):
        return False
    if answer.status_code == 200 and operation.output_shape is None:
        return True
    if content and parsed.keys() - {"ResponseMetadata"}:
        return True
    try:
        return isinstance(json.loads(content), dict)
    except ValueError:
        return False


def _retry_conflict(response: tuple[Any, dict[str, Any]] | None, **_: object) -> None:
    """Retry a single write that conflicted with a transaction. botocore would not."""
    parsed = response[1] if response else {}
    if parsed.get("Error", {}).get("Code") == "TransactionConflictException":
        parsed["Error"]["Code"] = "TransactionInProgressException"


@contextmanager
def deadline() -> Iterator[None]:
    """Raise Unavailable for calls in this block after 13 seconds. The gateway then gets an answer in time."""
    before = _last_call.set(time.monotonic() + _DEADLINE)
    try:
        yield
    finally:
        _last_call.reset(before)


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate botocore's errors to Unavailable or Misconfigured. A ClientError that answers the request stays."""
    if time.monotonic() > _last_call.get():
        raise Unavailable("OutOfTime")
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise _translate(error) from None


def _translate(error: BotoCoreError | ClientError) -> Exception:
    """Return Unavailable or Misconfigured for such an error. Another ClientError is returned unchanged."""
    if not isinstance(error, ClientError):  # only its type: its message may contain data of the request
        return (Unavailable if isinstance(error, _UNREACHABLE) else Misconfigured)(type(error).__name__)
    code = error.response["Error"]["Code"]
    if code in _MISCONFIGURED:
        return Misconfigured(code)
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return Unavailable(code) if status >= 500 or code in _BUSY else error


# In Lambda an import has a full CPU, a request only a part of one.
if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
    with suppress(BotoCoreError):  # the first call raises it again
        client("dynamodb")
