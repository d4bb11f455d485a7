"""AWS clients, created on first use, and errors for a store that is unavailable or misconfigured."""

import json
import math
import os
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from botocore import handlers
from botocore.config import Config
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import BotoCoreError, ClientError
from botocore.model import OperationModel
from botocore.session import Session, get_session

from chalicelib.storage.client import call_counts, direct, models, transport
from chalicelib.storage.client.aws_errors import AwsError as AwsError
from chalicelib.storage.client.aws_errors import Misconfigured as Misconfigured
from chalicelib.storage.client.aws_errors import Unavailable as Unavailable
from chalicelib.storage.client.aws_errors import translate

# A call takes at most 15 seconds: three attempts of four seconds, and three seconds of pauses. A call that begins at
# most 13 seconds after the start of a request ends before API Gateway's timeout, which is 29 seconds.
_DEADLINE = 13
_CONFIG = Config(
    connect_timeout=1,
    read_timeout=3,
    retries={"mode": "standard", "total_max_attempts": 3},
    max_pool_connections=64,
    tcp_keepalive=True,
    parameter_validation=False,  # AWS validates parameters; `call` raises Misconfigured for invalid ones
)
# `parse_answer` parses the answers of these operations, which contain no timestamps. botocore parses all other answers.
PARSED = (
    "BatchGetItem",
    "DeleteItem",
    "GetItem",
    "PutItem",
    "Query",
    "Scan",
    "TransactWriteItems",
    "UpdateItem",
)
_TRANSACTION = "TransactWriteItems"
_BODY = "body"  # the key of a transaction's encoded body in the context that botocore keeps for each call

_clients: dict[str, Any] = {}
_callers: dict[str, direct.DirectCaller] = {}  # the caller of each service for which `call_directly` was called
_lock = threading.Lock()
_last_call: ContextVar[float] = ContextVar("last_call", default=math.inf)


def client(service: str) -> Any:
    """Return the client of a service ("dynamodb", "kms"), one per process.

    The client calls AWS_ENDPOINT_URL if that is set, else the emulator at LOCALSTACK_HOST if that is set, else AWS.
    """
    if service not in _clients:
        with _lock:  # botocore cannot create two clients of a session at once
            if service not in _clients:
                _clients[service] = _connect(service)
    return _clients[service]


def call(service: str, operation: str, **parameters: Any) -> dict[str, Any]:
    """Call a service and return its answer. Raises Unavailable, Misconfigured, or ClientError for other errors."""
    if time.monotonic() > _last_call.get():
        raise Unavailable("OutOfTime")
    caller = _callers.get(service) if operation in direct.OPERATIONS else None
    if caller:
        if (direct_answer := caller.call(operation, parameters)) is not None:
            return direct_answer
        if time.monotonic() > _last_call.get():  # the direct call has failed, and may have taken all the time
            raise Unavailable("OutOfTime")
    try:
        answer: dict[str, Any] = getattr(client(service), operation)(**parameters)
    except (BotoCoreError, ClientError) as error:
        problem = translate(error)
        if isinstance(problem, AwsError):
            call_counts.note(service, problem.code)
        raise problem from None
    finally:
        if service == "kms":
            call_counts.note(service)
    return answer


def call_each(service: str, operation: str, calls: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Make calls with the given parameters, in parallel after `call_directly`. Raises the errors of `call`."""
    caller = _callers.get(service) if time.monotonic() <= _last_call.get() else None
    answers = caller.call_each(operation, calls) if caller else None
    return answers or [call(service, operation, **parameters) for parameters in calls]


def close_connections() -> None:
    """Close the idle connections of all clients."""
    for service_client in _clients.values():
        service_client.close()


def call_directly(*services: str) -> None:
    """Send all later calls of some services without botocore's pipeline (see `direct`)."""
    for service in services:
        service_client = client(service)
        _callers[service] = direct.DirectCaller(
            service_client, _host(service_client.meta.endpoint_url), _find_credentials, parse
        )


def _find_credentials() -> ReadOnlyCredentials | None:
    """Return the current credentials, or None. Raises BotoCoreError."""
    credentials = _session().get_credentials()
    frozen: ReadOnlyCredentials | None = credentials.get_frozen_credentials() if credentials else None
    return frozen


def endpoint() -> str:
    """Return the configured endpoint without credentials in its URL, or "AWS" if none is set."""
    named = os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("LOCALSTACK_HOST")
    return named.rpartition("@")[2] if named else "AWS"


def region() -> str:
    """Return the configured region, or "none"."""
    try:
        return _session().get_config_variable("region") or "none"
    except BotoCoreError:  # for example, the profile in AWS_PROFILE does not exist
        return "none"


def _connect(service: str) -> Any:
    # a user agent that is built only once: botocore would build it twice per call
    config = _CONFIG.merge(Config(user_agent=_session().user_agent()))
    if os.environ.get("LOCALSTACK_HOST") and not os.environ.get("AWS_ENDPOINT_URL"):
        # imported here, because only the development environment has this package
        from localstack_client.session import Session as LocalStack

        service_client = LocalStack().client(service, config=config)
    else:
        service_client = _session().create_client(service, config=config)
    name = service_client.meta.service_model.service_id.hyphenize()
    service_client.meta.events.register_first(f"before-parse.{name}", blank_unreadable)
    # remove botocore's handler that adds headers about retries, because AWS does not read them
    service_client.meta.events.unregister("request-created", handlers.add_retry_headers)
    service_client.meta.events.register_first(f"before-call.{name}", _set_host)
    service_client.meta.events.register_first(f"needs-retry.{name}", _retry_incomplete)
    service_client.meta.events.register_first(f"needs-retry.{name}", _retry_conflict)
    if service == "dynamodb":
        for operation in PARSED:
            service_client.meta.events.register_first(f"before-parse.dynamodb.{operation}", parse_answer)
        service_client.meta.events.register_last("before-parameter-build", take_parameters)
        service_client.meta.events.register_first(f"before-call.dynamodb.{_TRANSACTION}", put_parameters)
    return service_client


@cache
def _session() -> Session:
    """Return botocore's session, which all clients share. To import boto3 would take 40 ms more."""
    session = get_session()
    models.install(session)
    transport.install(session)
    return session


def _set_host(params: dict[str, Any], **_: object) -> None:
    """Set the Host header, which botocore's signer would otherwise compute twice per request."""
    params["headers"]["Host"] = _host(params["url"])


@cache
def _host(address: str) -> str:
    """Return the Host header of an address. It contains the port, unless that is the default one."""
    scheme, netloc = urlsplit(address)[:2]
    return netloc.rpartition("@")[2].lower().removesuffix({"http": ":80", "https": ":443"}[scheme])


def blank_unreadable(response_dict: dict[str, Any], **_: object) -> None:
    """Replace a body by an empty one if it is not a JSON object in UTF-8. botocore's parser would fail."""
    body = response_dict["body"]
    try:
        body.decode()
    except UnicodeDecodeError:
        body = b""
    response_dict["body"] = body if body.lstrip().startswith(b"{") or response_dict["status_code"] >= 300 else b""


def parse_answer(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object) -> None:
    """Parse the body of an answer like botocore, but faster. Raises ValueError for malformed base64.

    An answer with malformed base64 is complete, so a retry would not help.
    """
    body = response_dict["body"]
    if response_dict["status_code"] >= 300:
        return
    response_dict["body"] = b""
    customized_response_dict.update(parse(body) or {})


def parse(body: bytes) -> dict[str, Any] | None:
    """Return the JSON object in a body. Return None if it is malformed. Fields with the value null are left out.

    Raises ValueError for malformed base64.
    """
    try:
        answer = json.loads(body.decode(), object_hook=_decode_bytes if b'"B"' in body else None)
    except (json.JSONDecodeError, UnicodeDecodeError):
        return None
    if not isinstance(answer, dict):
        return None
    return {name: value for name, value in answer.items() if value is not None}


def _decode_bytes(value: dict[str, Any]) -> dict[str, Any]:
    """Decode the base64 of a binary attribute. Return any other object unchanged."""
    text = value.get("B")
    return {"B": b64decode(text, validate=True)} if isinstance(text, str) else value


def take_parameters(params: dict[str, Any], model: OperationModel, context: dict[str, Any], **_: object) -> None:
    """Encode the body of a transaction like botocore. Called after botocore has added the idempotency token."""
    if model.name == _TRANSACTION:
        context[_BODY] = json.dumps(params, default=_base64).encode()
        params.clear()


def put_parameters(params: dict[str, Any], context: dict[str, Any], **_: object) -> None:
    """Set the request's body to the text that `take_parameters` encoded."""
    params["body"] = context.pop(_BODY)


def _base64(value: bytes) -> str:
    return b64encode(value).decode()


def _retry_incomplete(response: tuple[Any, dict[str, Any]] | None, operation: Any, **_: object) -> None:
    """Make botocore retry an incomplete answer. botocore would accept the answer as "nothing found" or "done"."""
    if response and not _is_complete(*response, operation):
        answer, parsed = response
        answer.status_code = 503
        parsed["Error"] = {"Code": "ServiceUnavailable"}


def _is_complete(answer: Any, parsed: Mapping[str, Any], operation: Any) -> bool:
    """Return whether an answer has the declared length, and contains JSON if the operation returns any."""
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
    """Make botocore retry a single write that conflicted with a transaction. By default, botocore does not."""
    parsed = response[1] if response else {}
    if parsed.get("Error", {}).get("Code") == "TransactionConflictException":
        parsed["Error"]["Code"] = "TransactionInProgressException"


@contextmanager
def deadline() -> Iterator[None]:
    """In a `with` block, refuse calls after 13 seconds with Unavailable, to answer before API Gateway's timeout."""
    before = _last_call.set(time.monotonic() + _DEADLINE)
    try:
        yield
    finally:
        _last_call.reset(before)


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate botocore's errors to Unavailable or Misconfigured.

    Other ClientErrors, for example a false condition, are not translated.
    """
    if time.monotonic() > _last_call.get():
        raise Unavailable("OutOfTime")
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise translate(error) from None


# Create DynamoDB's client now: Lambda gives a full CPU to the import, and only a part of a CPU to a request.
if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
    with suppress(BotoCoreError):  # the first request creates the client again, and reports the error
        call_directly("dynamodb")
