"""Signs in at an OpenID Connect issuer by authorization code with PKCE, by device grant, or by refresh token."""

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import urllib3

from tunnel_edge.api.client import is_loopback
from tunnel_edge.api.errors import UnreachableError
from tunnel_edge.errors import FAILED, NOT_SIGNED_IN, CommandError

_DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_TIMEOUT = 10.0  # seconds to wait for an answer of the issuer


@dataclass(frozen=True)
class SignInParameters:
    """The parameters of `GET /federated_credentials/{id}/sign_in`."""

    issuer: str
    client_id: str
    client_secret: str
    scopes: tuple[str, ...]
    audience: str


@dataclass(frozen=True)
class Tokens:
    """An ID token, and the refresh token if the issuer sent one."""

    id_token: str
    refresh_token: str = ""


@dataclass(frozen=True)
class Attempt:
    """One sign-in in a browser, with its random secrets."""

    state: str
    nonce: str
    verifier: str
    redirect_uri: str

    @classmethod
    def begin(cls, redirect_uri: str) -> "Attempt":
        """Return a new sign-in with new secrets. `redirect_uri` receives the code."""
        return cls(secrets.token_urlsafe(32), secrets.token_urlsafe(32), secrets.token_urlsafe(48), redirect_uri)

    def code_of(self, query: str) -> str | None:
        """Return the code in the query of a callback. Return None if `state` belongs to another sign-in.

        Raises CommandError if the issuer sent an error with the right `state`.
        """
        parameters = {name: values[0] for name, values in parse_qs(query).items()}
        if not secrets.compare_digest(parameters.get("state", "").encode(), self.state.encode()):
            return None
        if error := parameters.get("error"):
            raise CommandError(
                f"The issuer rejected the sign-in: {parameters.get('error_description') or error}", FAILED
            )
        return parameters.get("code") or None


class Provider:
    """An OpenID Connect issuer, with the endpoints of its discovery document."""

    def __init__(self, pool: urllib3.PoolManager, sign_in: SignInParameters) -> None:
        self.sign_in, self._pool = sign_in, pool
        address = f"{_require_https(sign_in.issuer).rstrip('/')}/.well-known/openid-configuration"
        self._endpoints = self._send("GET", address)
        if self._endpoints.get("issuer") != sign_in.issuer:
            issuer = self._endpoints.get("issuer")
            raise CommandError(f"{address} must name the issuer {sign_in.issuer}, but names {issuer}.", FAILED)

    def address(self, attempt: Attempt) -> str:
        """Return the URL that the user opens to sign in."""
        query = {
            "response_type": "code",
            "client_id": self.sign_in.client_id,
            "redirect_uri": attempt.redirect_uri,
            "scope": " ".join(self.sign_in.scopes),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": _base64(hashlib.sha256(attempt.verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        endpoint = self._endpoint("authorization_endpoint")
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    def redeem(self, code: str, attempt: Attempt) -> Tokens:
        """Exchange the code of a callback for tokens."""
        fields = {"code": code, "redirect_uri": attempt.redirect_uri, "code_verifier": attempt.verifier}
        answer = self._token("authorization_code", fields)
        return self._check_tokens(answer, attempt.nonce)

    def refresh(self, refresh_token: str) -> Tokens:
        """Exchange a refresh token for new tokens."""
        answer = self._token("refresh_token", {"refresh_token": refresh_token})
        return self._check_tokens({"refresh_token": refresh_token, **answer}, None)

    def sign_in_by_device(self, show: Callable[[str, str], None]) -> Tokens:
        """Wait for a sign-in on another device, and return its tokens.

        `show` receives the URL and the code for the user.
        """
        fields = {"client_id": self.sign_in.client_id, "scope": " ".join(self.sign_in.scopes)}
        started = self._send("POST", self._endpoint("device_authorization_endpoint"), fields)
        address = started.get("verification_uri_complete") or _field(started, "verification_uri")
        show(str(address), _field(started, "user_code"))
        code = _field(started, "device_code")
        interval, end = float(started.get("interval", 5)), time.monotonic() + float(started.get("expires_in", 300))
        while time.monotonic() < end:
            time.sleep(interval)
            answer = self._token(_DEVICE_GRANT, {"device_code": code}, is_pending_accepted=True)
            if not answer.get("error"):
                return self._check_tokens(answer, None)
            interval += 5 if answer["error"] == "slow_down" else 0
        raise CommandError("The sign-in was not confirmed in time: begin again.", NOT_SIGNED_IN)

    def _endpoint(self, name: str) -> str:
        endpoint = self._endpoints.get(name)
        if not isinstance(endpoint, str):
            raise CommandError(f"{self.sign_in.issuer} has no {name}: choose another way to sign in.", FAILED)
        return _require_https(endpoint)

    def _token(self, grant: str, fields: Mapping[str, str], *, is_pending_accepted: bool = False) -> dict[str, Any]:
        parameters = {"grant_type": grant, "client_id": self.sign_in.client_id, **fields}
        parameters |= {"client_secret": self.sign_in.client_secret} if self.sign_in.client_secret else {}
        errors = ("authorization_pending", "slow_down") if is_pending_accepted else ()
        return self._send("POST", self._endpoint("token_endpoint"), parameters, errors)

    def _send(
        self, method: str, url: str, fields: Mapping[str, str] | None = None, errors: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """Send a request to the issuer. Return the JSON object of the response.

        Raises CommandError for other responses.
        """
        body = None if fields is None else urlencode(fields)
        headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        try:
            answer = self._pool.request(
                method, url, body=body, headers=headers, timeout=_TIMEOUT, retries=False, redirect=False
            )
            content = json.loads(answer.data)
        except urllib3.exceptions.HTTPError as error:
            raise UnreachableError(f"The issuer is unreachable at {url}: {error}") from error
        except ValueError:
            raise CommandError(f"{url} answered with the status {answer.status} and without JSON.", FAILED) from None
        if not isinstance(content, dict) or (answer.status != 200 and content.get("error") not in errors):
            reason = content.get("error_description") or content.get("error") if isinstance(content, dict) else ""
            raise CommandError(f"{url} answered with the status {answer.status}: {reason}", FAILED)
        return content

    def _check_tokens(self, answer: Mapping[str, Any], nonce: str | None) -> Tokens:
        """Return the tokens in a response. Raises CommandError if `iss`, `aud` or `nonce` belong to another sign-in."""
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise CommandError("The issuer sent no ID token: the scopes must contain openid.", FAILED)
        claims = claims_of(token)
        is_right = {
            "iss": claims.get("iss") == self.sign_in.issuer,
            "aud": _contains(claims.get("aud"), self.sign_in.client_id),
            "nonce": nonce is None or claims.get("nonce") == nonce,
        }
        if wrong := [name for name, right in is_right.items() if not right]:
            raise CommandError(
                f"The ID token is for another sign-in, because it has another {', '.join(wrong)}: begin again.", FAILED
            )
        return Tokens(token, str(answer.get("refresh_token") or ""))


def _field(answer: Mapping[str, Any], name: str) -> str:
    """Return the text of a field in an issuer's response. Raises CommandError if it is missing."""
    text = answer.get(name)
    if not isinstance(text, str):
        raise CommandError(f"The issuer's response has no text in the required field '{name}'.", FAILED)
    return text


def claims_of(token: str) -> dict[str, Any]:
    """Return the claims of a token. The signature is not verified."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (IndexError, ValueError) as error:
        raise CommandError("The issuer sent an ID token that is not a JWT.", FAILED) from error
    return claims if isinstance(claims, dict) else {}


def _contains(audience: Any, client_id: str) -> bool:
    return client_id in audience if isinstance(audience, list) else bool(audience == client_id)


def _base64(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _require_https(url: str) -> str:
    """Return `url` if it is https, or http with a loopback address. Raises CommandError for any other URL."""
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        return url
    raise CommandError(f"The issuer cannot be used: {url} does not begin with https://.", FAILED)
