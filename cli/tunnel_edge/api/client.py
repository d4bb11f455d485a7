"""Sends HTTP requests to the service, with retries, pages, idempotency keys and renewals of a rejected token."""

import email.utils
import ipaddress
import json
import random
import secrets
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from tunnel_edge import __version__
from tunnel_edge.api.errors import UnreachableError, from_answer
from tunnel_edge.errors import FAILED, NOT_SIGNED_IN, USAGE, CommandError

if TYPE_CHECKING:
    import urllib3

VERSION = "2"
ATTEMPTS = 3
_MAX_WAIT = 30.0  # seconds: if the service asks for a longer wait, the command reports the error instead
_REPEATED = {429, 500, 502, 503, 504}


@dataclass(frozen=True)
class Answer:
    """A successful response. The names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        """Return the decoded JSON of the body, or None if the body is empty."""
        try:
            return json.loads(self.content) if self.content else None
        except ValueError as error:
            raise CommandError(f"The service answered with something other than JSON: {error}.", FAILED) from error


class Client:
    """Sends requests to one service. `token` is called for each request, and returns "" if there is no token.

    If a request gets a 401, `renew` is called once. It returns a new token, or "" if it could not obtain one.
    """

    def __init__(
        self,
        url: str,
        token: Callable[[], str] = str,
        renew: Callable[[], str] = str,
        cacert: str = "",
        timeout: float = 30.0,
        attempts: int = ATTEMPTS,
    ) -> None:
        self.url = check_url(url)
        self._token, self._renew = token, renew
        self._timeout, self._attempts, self._cacert = timeout, attempts, cacert

    def get(self, path: str, **query: str) -> Any:
        """Send a GET request. Return the JSON of the response."""
        return self.send("GET", path, query=query).json

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send a POST request. Return the JSON of the response."""
        return self.send("POST", path, body).json

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request. If the service rejects the token, renew it once and send the request again.

        Raises ApiError, UnreachableError.
        """
        url = self._address(path) + (f"?{urlencode(query, doseq=True)}" if query else "")
        content = None if body is None else json.dumps(body, allow_nan=False).encode()
        all_headers = self._headers(method, content, headers or {})
        answer = self._attempt(method, url, content, all_headers)
        if answer.status == 401 and (token := self._renew()):
            answer = self._attempt(method, url, content, {**all_headers, "Authorization": f"Bearer {token}"})
        if answer.status >= 400:
            raise from_answer(answer.status, answer.content)
        return answer

    def pages(self, path: str, query: Mapping[str, Any] | None = None) -> Iterator[Mapping[str, Any]]:
        """Yield the body of each page of a list. Each page has the URL of the next page in `next_page_uri`."""
        page = self.send("GET", path, query=query).json
        yield page
        while following := page.get("next_page_uri"):
            page = self.send("GET", following).json
            yield page

    def _address(self, path: str) -> str:
        """Return the URL of a path or a `next_page_uri`.

        Raises CommandError if it is not below this service's address.
        """
        if path.startswith("/"):
            return self.url + path
        if path.startswith(f"{self.url}/"):
            return path
        parts = urlsplit(path)
        if parts.scheme and urlsplit(self.url).hostname != parts.hostname:
            raise CommandError(f"The service returned a link to another host, which is not followed: {path}", FAILED)
        return self.url + parts.path + (f"?{parts.query}" if parts.query else "")

    def _headers(self, method: str, content: bytes | None, extra: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a request. A POST gets an idempotency key, so that it can be repeated."""
        headers = {"Service-Version": VERSION, "User-Agent": f"te/{__version__}", "Accept": "application/json"}
        if content is not None:
            headers["Content-Type"] = "application/json"
        if method == "POST":
            headers["Idempotency-Key"] = secrets.token_hex(16)
        if token := self._token():
            headers["Authorization"] = f"Bearer {token}"
        return headers | dict(extra)

    def _attempt(self, method: str, url: str, content: bytes | None, headers: Mapping[str, str]) -> Answer:
        """Send a request up to three times, if it may be repeated. Raises UnreachableError."""
        import urllib3

        attempts = self._attempts if method in ("GET", "POST") else 1
        for retries in reversed(range(attempts)):
            try:
                answer = self._once(method, url, content, headers)
            except urllib3.exceptions.HTTPError as error:
                if not retries:
                    raise UnreachableError(f"{self.url} is unreachable: {_reason(error)}") from error
                time.sleep(_backoff(attempts - retries))
            else:
                wait = _wait(answer, attempts - retries)
                if not retries or answer.status not in _REPEATED or wait > _MAX_WAIT:
                    return answer
                time.sleep(wait)
        raise AssertionError

    @cached_property
    def _pool(self) -> "urllib3.PoolManager":
        return open_pool(self.url, self._cacert)

    def _once(self, method: str, url: str, content: bytes | None, headers: Mapping[str, str]) -> Answer:
        response = self._pool.request(
            method, url, body=content, headers=dict(headers), timeout=self._timeout, retries=False, redirect=False
        )
        return Answer(response.status, {name.lower(): value for name, value in response.headers.items()}, response.data)


def check_url(url: str) -> str:
    """Return the address of a service without a slash at the end.

    A token is sent over https, or over http to a loopback address. Raises CommandError for any other address.
    """
    parts = urlsplit(url)
    if not url:
        raise CommandError("No service is chosen: sign in with te login URL, or set TE_URL.", NOT_SIGNED_IN)
    is_plain = not (parts.query or parts.fragment or parts.username or parts.password)
    if is_plain and _is_safe(parts.scheme, parts.hostname or ""):
        return url.rstrip("/")
    raise CommandError(
        f"{url} is not the address of a service: use https://HOST, or http:// with a loopback address like 127.0.0.1.",
        USAGE,
    )


def _is_safe(scheme: str, host: str) -> bool:
    return bool(host) and (scheme == "https" or (scheme == "http" and is_loopback(host)))


def is_loopback(host: str) -> bool:
    """Return whether a host is `localhost` or a loopback address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def open_pool(url: str, cacert: str = "") -> "urllib3.PoolManager":
    """Return a pool of connections that verify the server's certificate.

    `cacert` is a file with additional CA certificates. For an address without TLS, the CA certificates of the system
    are not read, because reading them takes long.
    """
    import urllib3

    if url.startswith("http://"):
        return urllib3.PoolManager()
    context = ssl.create_default_context()
    if cacert:
        try:
            context.load_verify_locations(cafile=cacert)
        except (OSError, ssl.SSLError) as error:
            raise CommandError(f"{cacert} is not a file with PEM certificates: {error}", USAGE) from error
    return urllib3.PoolManager(ssl_context=context)


def _reason(error: Exception) -> str:
    """Return the cause of a failed connection in a few words."""
    cause = error.__cause__ or error.__context__ or error
    return str(getattr(cause, "strerror", None) or cause)


def _wait(answer: Answer, attempt: int) -> float:
    """Return the seconds to wait before the next attempt. A header `Retry-After` of the service has precedence."""
    after = answer.headers.get("retry-after", "")
    if after.isdigit():
        return float(after)
    if after and (at := email.utils.parsedate_tz(after)):
        return max(0.0, email.utils.mktime_tz(at) - time.time())
    return _backoff(attempt)


def _backoff(attempt: int) -> float:
    return float(0.2 * 2**attempt * random.uniform(0.75, 1.25))
