"""Sends all requests to identity providers.

The client follows no redirects, ignores proxies in the environment, and reads at most 1 MiB of an answer.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import httpx

from chalicelib.model.edges.sign_in_rules import SignInRule
from edge.sign_in.provider import id_tokens, reading
from edge.sign_in.provider.facts import Facts
from edge.sign_in.provider.id_tokens import InvalidIdToken
from edge.sign_in.provider.provider_table import Provider
from edge.sign_in.provider.reading import ProviderAnswer, UnreadableAnswer

MAX_ANSWER = 1024 * 1024  # the most bytes of a provider's answer
_MAX_TOKENS = 4096  # the most bytes of stored tokens: one call to KMS encrypts no more
# Providers report errors as texts of RFC 6749 or GitHub, as numbers (Facebook) or as messages (Twitch).
_APPLICATION_ERRORS = (
    *("invalid_client", "unauthorized_client", "incorrect_client_credentials"),
    *("1", "101", "invalid client", "invalid client secret"),
)
_GRANT_ERRORS = (
    *("invalid_grant", "invalid_token", "bad_verification_code", "bad_refresh_token"),
    *("100", "190", "invalid authorization code", "invalid refresh token"),
)
T = TypeVar("T")


class ExchangeFailed(Exception):
    """The provider did not identify the user. `outcome` is the reason, as a label in metrics."""

    outcome = ""


class Silent(ExchangeFailed):
    """The provider did not answer in time, or answered with a server error."""

    outcome = "silent"


class Rejected(ExchangeFailed):
    """The provider rejects the code or token, or its id token is invalid for this sign-in."""

    outcome = "rejected"


class ApplicationRejected(ExchangeFailed):
    """The provider rejects the client id or the client secret of the OAuth application."""

    outcome = "application"


class Unreadable(ExchangeFailed):
    """The provider's answer is malformed, or lacks a field."""

    outcome = "unreadable"


@dataclass(frozen=True)
class Application:
    """An OAuth application that is registered at a provider."""

    client_id: str
    client_secret: str


@dataclass(frozen=True)
class Tokens:
    """A user's tokens, with which the provider is asked about the user again.

    `refresh` is "" if there is no refresh token. `ends` is the Unix second at which `access` expires, or 0 if unknown.
    """

    access: str
    refresh: str = ""
    ends: int = 0

    def to_bytes(self) -> bytes:
        """Return the tokens as bytes that the vault can encrypt."""
        return json.dumps({"access": self.access, "refresh": self.refresh, "ends": self.ends}).encode()

    @staticmethod
    def parse(plain: bytes) -> "Tokens":
        """Parse the output of `to_bytes`."""
        return Tokens(**json.loads(plain))


class ProviderClient:
    """Asks providers who a user is.

    All requests about one user take at most `timeout` seconds. Each single request takes at most `call_timeout`.
    `watch_date` is called with the Date header of each answer.
    """

    def __init__(
        self,
        *,
        timeout: float = 10,
        call_timeout: float = 5,
        clock: Callable[[], float],
        watch_date: Callable[[str], None],
    ) -> None:
        self._timeout, self._clock, self._watch_date = timeout, clock, watch_date
        self._client = httpx.AsyncClient(
            trust_env=False,
            follow_redirects=False,
            timeout=call_timeout,
            # connections are not limited here, because ExchangeLimits limits the exchanges
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            headers={"user-agent": "tunnel-edge", "accept-encoding": "identity"},
        )

    async def redeem(
        self,
        provider: Provider,
        app: Application,
        rule: SignInRule,
        *,
        code: str,
        redirect_uri: str,
        verifier: str,
        nonce: str,
    ) -> tuple[Tokens, Facts]:
        """Return the tokens and facts for an authorization code. Raises ExchangeFailed."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            **({"code_verifier": verifier} if provider.has_pkce else {}),
        }
        return await self._run_in_time(self._obtain(provider, app, rule, form, nonce if provider.has_nonce else None))

    async def check(
        self, provider: Provider, app: Application, rule: SignInRule, tokens: Tokens
    ) -> tuple[Tokens, Facts]:
        """Return new tokens and facts of a user who signed in before. Raises ExchangeFailed."""
        if not provider.has_refresh:
            return tokens, await self._run_in_time(self._read(provider, app, rule, tokens.access, None))
        if not tokens.refresh:
            raise Rejected("the session has no refresh token: the user must sign in again")
        form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh}
        return await self._run_in_time(self._obtain(provider, app, rule, form, None, tokens.refresh))

    async def close(self) -> None:
        """Close all connections to providers."""
        await self._client.aclose()

    async def _run_in_time(self, work: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._timeout):
                return await work
        except (TimeoutError, httpx.HTTPError):
            raise Silent from None
        except UnreadableAnswer as error:
            raise Unreadable(str(error)) from None
        except InvalidIdToken as error:
            raise Rejected(str(error)) from None

    async def _obtain(
        self,
        provider: Provider,
        app: Application,
        rule: SignInRule,
        form: Mapping[str, str],
        nonce: str | None,
        refresh: str = "",
    ) -> tuple[Tokens, Facts]:
        """Exchange an authorization code or a refresh token for tokens and facts about the user.

        `form` contains the code or the token. If the provider sends no new refresh token, the tokens contain `refresh`.
        """
        secrets = {"client_id": app.client_id, "client_secret": app.client_secret}
        answer = await self._send("POST", provider.token, data={**form, **secrets})
        if not isinstance(answer, dict) or not isinstance(answer.get("access_token"), str):
            raise UnreadableAnswer("access_token")
        lifetime = answer.get("expires_in")
        ends = int(self._clock()) + lifetime if isinstance(lifetime, int) else 0
        tokens = Tokens(answer["access_token"], str(answer.get("refresh_token") or refresh), ends)
        claims = self._claims(provider, app, answer.get("id_token"), nonce, required=not refresh)
        facts = await self._read(provider, app, rule, tokens.access, claims)
        stored = replace(tokens, access="") if provider.has_refresh else tokens  # rechecks use only the refresh token
        if len(stored.to_bytes()) > _MAX_TOKENS:
            raise Unreadable("the tokens in the provider's answer must have at most 4 KiB together")
        return stored, facts

    async def _read(
        self,
        provider: Provider,
        app: Application,
        rule: SignInRule,
        access: str,
        claims: Mapping[str, Any] | None,
    ) -> Facts:
        async def ask(url: str, parameters: Mapping[str, str] = {}) -> Any:
            headers = {"authorization": f"Bearer {access}"}
            return await self._send("GET", url, params=dict(parameters), headers=headers)

        answer = ProviderAnswer(provider, access, claims, app.client_secret)
        return await reading.read_facts(answer, rule, ask)

    def _claims(
        self, provider: Provider, app: Application, token: object, nonce: str | None, *, required: bool
    ) -> Mapping[str, Any] | None:
        if not provider.issuer or (token is None and not required):
            return None
        if not isinstance(token, str):
            raise UnreadableAnswer("id_token")
        return id_tokens.read_claims(
            token, issuer=provider.issuer, client_id=app.client_id, nonce=nonce, now=self._clock()
        )

    async def _send(self, method: str, url: str, **more: Any) -> Any:
        """Send a request to a provider, and return the decoded JSON. Raises ExchangeFailed, httpx.HTTPError."""
        headers = {"accept": "application/json", **more.pop("headers", {})}
        async with self._client.stream(method, url, headers=headers, **more) as response:
            content = b""
            async for piece in response.aiter_raw():  # not unpacked: a small answer could unpack to gigabytes
                content += piece
                if len(content) > MAX_ANSWER:
                    raise Unreadable("the provider's answer must have at most 1 MiB")
        self._watch_date(response.headers.get("date", ""))
        try:
            answer = json.loads(content)
        except ValueError:
            answer = None
        _check_status(response.status_code, response.headers, answer)
        return answer


def _check_status(status: int, headers: Mapping[str, str], answer: Any) -> None:
    """Raise ExchangeFailed if an answer reports an error.

    GitHub reports errors with status 200, and its rate limit with 403.
    """
    error = _error_of(answer)
    is_limited = headers.get("x-ratelimit-remaining") == "0" or "retry-after" in headers
    if status >= 500 or status == 429 or (status == 403 and is_limited):
        raise Silent
    if error in _APPLICATION_ERRORS:
        raise ApplicationRejected
    if error in _GRANT_ERRORS or status in (401, 403):
        # the text of an unknown error can contain data about the user
        raise Rejected(error if error in _GRANT_ERRORS else f"status {status}")
    if status != 200 or error or answer is None:
        raise Unreadable(f"status {status}")


def _error_of(answer: Any) -> str:
    """Return the error in a provider's answer, or "".

    Facebook sends an object with an error number, and Twitch sends only a message.
    """
    if not isinstance(answer, dict):
        return ""
    error = answer.get("error", "")
    if isinstance(error, dict):
        return str(error.get("code", "unknown"))
    message = answer.get("message")
    return str(message).lower() if isinstance(message, str) and answer.get("status") != 200 else str(error or "")
