"""Sends HTTP requests to the API, with a limited number of retries, and parses its errors."""

import ipaddress
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import urllib3

from tunneledge_provider import __version__

VERSION = "2"
MAX_RETRIES = 5
_CONNECTIONS = 10  # size of the connection pool: Terraform changes at most ten resources at once by default
_LONGEST_WAIT = 60  # seconds: larger values of `Retry-After` count as 60
_TIMEOUT = urllib3.Timeout(connect=10, read=60)


class ConfigurationError(Exception):
    """The configuration of the provider is invalid. The message says why."""


@dataclass(eq=False)
class ApiError(Exception):
    """The API's error response. `fields` has the API's message about each field, by the dotted path of the field."""

    status: int
    msg: str
    operation_id: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.msg


class _Retry(urllib3.Retry):
    """Repeats requests after failed connections, and after responses with `Retry-After`.

    The service sends this header if, for example, a resource is busy.
    """

    RETRY_AFTER_STATUS_CODES = frozenset({409, 429, 503})


class Api:
    """Sends requests to one service with a token."""

    def __init__(self, url: str, token: str, max_retries: int = MAX_RETRIES) -> None:
        self._url = _check_url(url)
        if not token:
            raise ConfigurationError("No token is configured: set token, or TE_TOKEN in the environment.")
        self._headers = {
            "Accept": "application/json",
            "Authorization": f"Bearer {token}",
            "Service-Version": VERSION,
            "User-Agent": f"terraform-provider-tunneledge/{__version__}",
        }
        self.retries = _Retry(
            max_retries,
            redirect=0,
            allowed_methods=None,
            status_forcelist={429, 502, 503, 504},
            backoff_factor=0.5,
            backoff_max=_LONGEST_WAIT,
            raise_on_status=False,
            retry_after_max=_LONGEST_WAIT,
        )
        self._pool = urllib3.PoolManager(retries=self.retries, timeout=_TIMEOUT, maxsize=_CONNECTIONS)

    def get(self, path: str) -> dict[str, Any]:
        return self.send("GET", path)

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a request. Return the JSON object in the response, or {} if it has no body. Raises ApiError.

        A POST has an idempotency key, so that retries do not create a second resource.
        """
        content = None if body is None else json.dumps(body).encode()
        headers = {**self._headers, **({} if content is None else {"Content-Type": "application/json"})}
        if method == "POST":
            headers["Idempotency-Key"] = str(uuid.uuid4())
        try:
            response = self._pool.request(method, self._url + path, body=content, headers=headers)
        except urllib3.exceptions.HTTPError as error:
            raise ApiError(0, f"{self._url} is unreachable: {error}") from error
        if response.status >= 300:
            raise as_error(response.status, response.data)
        return dict(json.loads(response.data)) if response.data else {}


def as_error(status: int, content: bytes) -> ApiError:
    """Return the error for an error response. The body does not have to be JSON."""
    try:
        body = json.loads(content)
        details = {key: str(value) for key, value in body.get("details", {}).items()}
        return ApiError(status, str(body["msg"]), details.pop("operation_id", ""), details)
    except (AttributeError, KeyError, TypeError, ValueError):
        return ApiError(status, f"The service answered with the status {status} and without a message.")


def _check_url(url: str) -> str:
    """Return the URL of a service without a slash at its end. Raises ConfigurationError if it is invalid.

    A token is sent over https, or over http to a loopback address.
    """
    if not url:
        raise ConfigurationError("No service is configured: set url, or TE_URL in the environment.")
    if not _is_safe(url):
        raise ConfigurationError(
            f"{url} is not a service's address: use https://HOST, or http:// with a loopback address like 127.0.0.1."
        )
    return url.rstrip("/")


def _is_safe(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_loopback = parts.hostname == "localhost" or (
            parts.scheme == "http" and ipaddress.ip_address(parts.hostname or "").is_loopback
        )
    except ValueError:
        return False
    is_plain = not (parts.query or parts.fragment or parts.username or parts.password)
    return bool(parts.hostname) and is_plain and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback))
