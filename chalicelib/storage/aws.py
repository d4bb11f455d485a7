"""Clients of AWS, made once and on first use, and one name for every way of not being reachable."""

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

# Three attempts of at most four seconds each, and at most three of pauses; what begins within the patience ends
# before the gateway gives up after 29.
_PATIENCE = 13
_CONFIG = Config(
    connect_timeout=1,
    read_timeout=3,
    retries={"mode": "standard", "total_max_attempts": 3},
    max_pool_connections=64,
    tcp_keepalive=True,
    parameter_validation=False,  # the service validates; what it refuses is Misconfigured too
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
    """AWS, or the way there, failed: `code` names how, and never holds what was sent."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Unavailable(AwsError):
    """The store or the key service is throttling, down or out of reach."""


class Misconfigured(AwsError):
    """No credentials, no region, no such profile, table or key, no right to use it, or a request of a wrong form."""


def client(service: str) -> Any:
    """Return the process's one client of a service ("dynamodb", "kms").

    It speaks to AWS_ENDPOINT_URL when that is set, to the emulator that LOCALSTACK_HOST names when that is, and
    to the real cloud with neither.
    """
    if service not in _clients:
        with _lock:  # a session is not safe to share while it makes clients
            if service not in _clients:
                _clients[service] = _connect(service)
    return _clients[service]


def call(service: str, operation: str, **parameters: Any) -> dict[str, Any]:
    """Return the answer to one call of a service. Raises Unavailable, Misconfigured, ClientError for a refusal."""
    if time.monotonic() > _last_call.get():
        raise Unavailable("OutOfTime")
    try:
        answer: dict[str, Any] = getattr(client(service), operation)(**parameters)
    except (BotoCoreError, ClientError) as error:
        raise _translated(error) from None
    return answer


def endpoint() -> str:
    """Return where calls go, without what a URL may hold beside it; "AWS" where nothing else is set."""
    named = os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("LOCALSTACK_HOST")
    return named.rpartition("@")[2] if named else "AWS"


def region() -> str:
    """Return the region that calls go to, "none" where there is none."""
    try:
        return _session().get_config_variable("region") or "none"
    except BotoCoreError:  # a profile that is named and not there
        return "none"


def _connect(service: str) -> Any:
    config = _CONFIG.merge(Config(user_agent=_session().user_agent()))  # else botocore composes it twice for each call
    if os.environ.get("LOCALSTACK_HOST") and not os.environ.get("AWS_ENDPOINT_URL"):
        from localstack_client.session import Session as LocalStack  # a development requirement, not in the package

        made = LocalStack().client(service, config=config)
    else:
        made = _session().create_client(service, config=config)
    name = made.meta.service_model.service_id.hyphenize()
    made.meta.events.register_first(f"before-parse.{name}", answers.blank_unreadable)
    made.meta.events.unregister("request-created", handlers.add_retry_headers)  # nobody reads them
    made.meta.events.register_first(f"before-call.{name}", _name_host)
    made.meta.events.register_first(f"needs-retry.{name}", _refuse_broken_off)
    made.meta.events.register_first(f"needs-retry.{name}", _have_conflict_retried)
    if service == "dynamodb":
        for operation in answers.OPERATIONS:
            made.meta.events.register_first(f"before-parse.dynamodb.{operation}", answers.parse)
        made.meta.events.register_last("before-parameter-build", parameters.take)
        made.meta.events.register_first(f"before-call.dynamodb.{parameters.OPERATION}", parameters.put)
    return made


@cache
def _session() -> Session:
    """Return the session that the clients share. Not one of boto3, which takes 40 ms more to import."""
    session = get_session()
    models.use_in(session)
    transport.use_in(session)
    return session


def _name_host(params: dict[str, Any], **_: object) -> None:
    """Name the host of a request, which botocore's signer would find out twice for each."""
    params["headers"]["Host"] = _host(params["url"])


@cache
def _host(address: str) -> str:
    """Return the host of an address as a request names it: with its port, unless that is the usual one."""
    scheme, netloc = urlsplit(address)[:2]
    return netloc.rpartition("@")[2].lower().removesuffix({"http": ":80", "https": ":443"}[scheme])


def _refuse_broken_off(response: tuple[Any, dict[str, Any]] | None, operation: Any, **_: object) -> None:
    """Retry an answer that is not whole: botocore does not check, and reads it as "nothing found" or "done"."""
    if response and not _is_whole(*response, operation):
        answer, parsed = response
        answer.status_code = 503
        parsed["Error"] = {"Code": "ServiceUnavailable"}


def _is_whole(answer: Any, parsed: Mapping[str, Any], operation: Any) -> bool:
    """Tell whether an answer is as long as it says, and a JSON object where the operation has an output at all."""
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


def _have_conflict_retried(response: tuple[Any, dict[str, Any]] | None, **_: object) -> None:
    """Retry a single write that met a transaction, as botocore retries throttling: it takes a conflict for final."""
    parsed = response[1] if response else {}
    if parsed.get("Error", {}).get("Code") == "TransactionConflictException":
        parsed["Error"]["Code"] = "TransactionInProgressException"


@contextmanager
def deadline() -> Iterator[None]:
    """Let calls to AWS begin in this block for 13 seconds; later ones raise Unavailable, while the gateway waits."""
    before = _last_call.set(time.monotonic() + _PATIENCE)
    try:
        yield
    finally:
        _last_call.reset(before)


@contextmanager
def translate_errors() -> Iterator[None]:
    """Turn what botocore raises into Unavailable or Misconfigured; an answer to the question itself passes."""
    if time.monotonic() > _last_call.get():
        raise Unavailable("OutOfTime")
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise _translated(error) from None


def _translated(error: BotoCoreError | ClientError) -> Exception:
    """Return Unavailable or Misconfigured for such an error of botocore; another ClientError is returned as it is."""
    if not isinstance(error, ClientError):  # whose sentence may hold what was sent
        return (Unavailable if isinstance(error, _UNREACHABLE) else Misconfigured)(type(error).__name__)
    code = error.response["Error"]["Code"]
    if code in _MISCONFIGURED:
        return Misconfigured(code)
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return Unavailable(code) if status >= 500 or code in _BUSY else error


if (
    "AWS_LAMBDA_FUNCTION_NAME" in os.environ
):  # what is done at import has a whole CPU there, and a request a part of one
    with suppress(BotoCoreError):  # which the first call tells
        client("dynamodb")
