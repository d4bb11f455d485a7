"""Verification of tokens (JWT) of OpenID Connect issuers. No function has I/O.

Only the exchange imports this file, because importing PyJWT takes long. PyJWT checks signatures. This file first
rejects what PyJWT accepts: names that occur twice, `x5u`, `zip`, and times as text.
"""

import json
import math
import re
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import jwt
from jwt.api_jws import PyJWS

from chalicelib.federation import claims
from chalicelib.federation.claims import Patterns
from chalicelib.federation.key_sets import ALGORITHMS, KeySet

MAX_BYTES = 16 * 1024  # the maximum size of a token
TOLERANCE = 60  # seconds by which the issuer's clock and the clock of this process may differ
MAX_LIFETIME = 24 * 3600  # the maximum number of seconds between a token's `iat` and `exp`

_MAX_TIME = 2**53  # the largest Unix second in a token: arithmetic with larger numbers is inexact or fails
_FORM = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_REJECTED_NAMES = {"crit", "b64", "jku", "jwk", "x5u", "zip", "enc"}
_JWS = PyJWS()


class Rejected(Exception):
    """A token is not accepted. `reason` is for the admin and never contains a value of the token.

    `is_signed` is true if the signature of the token was valid. Other refusals must not be recorded, because anyone can
    cause them.
    """

    def __init__(self, reason: str, *, is_signed: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_signed = is_signed


class Requirements(Protocol):
    """The requirements of a federated credential for its tokens."""

    @property
    def issuer(self) -> str: ...
    @property
    def audiences(self) -> list[str]: ...
    @property
    def claims(self) -> Patterns: ...
    @property
    def owner_claim(self) -> str: ...
    @property
    def single_use(self) -> bool: ...


@dataclass(frozen=True)
class Unverified:
    """The issuer and key id of a token that is not verified yet. They may only select the keys for the verification."""

    issuer: str
    kid: str | None
    algorithm: str


@dataclass(frozen=True)
class Claims:
    """The verified claims of a token.

    `token_id` is the `jti`, or None. `owner_name` is the value of the credential's `owner_claim`, or None.
    """

    issuer: str
    subject: str
    token_id: str | None
    expires: int
    owner_name: str | None
    all: Mapping[str, Any]


def read_unverified(text: str) -> Unverified:
    """Return the issuer and key id of a well-formed token. Raises Rejected."""
    return _parse(text)[0]


def verify(text: str, keys: KeySet, credential: Requirements, now: int) -> Claims:
    """Return the claims of a token that a credential trusts. `now` is a Unix second. Raises Rejected."""
    unverified, payload = _parse(text)
    if unverified.issuer != credential.issuer:
        raise Rejected("issuer")
    _verify_signature(text, keys, unverified)
    if reason := _find_problem(payload, credential, now):
        raise Rejected(reason, is_signed=True)
    owner_name = payload[credential.owner_claim] if credential.owner_claim else None
    token_id = payload.get("jti")
    return Claims(
        issuer=payload["iss"],
        subject=payload["sub"],
        token_id=token_id if isinstance(token_id, str) else None,
        expires=math.ceil(payload["exp"]),
        owner_name=owner_name,
        all=payload,
    )


def _parse(text: str) -> tuple[Unverified, dict[str, Any]]:
    """Return the issuer, key id and payload of a well-formed token. Raises Rejected."""
    if len(text) > MAX_BYTES or not _FORM.fullmatch(text):
        raise Rejected("malformed")
    parts = text.split(".")
    header, payload = _decode(parts[0]), _decode(parts[1])
    _check_times(payload)
    algorithm, kid, issuer = header.get("alg"), header.get("kid"), payload.get("iss")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise Rejected("algorithm")
    if header.keys() & _REJECTED_NAMES or not isinstance(kid, str | None) or not isinstance(issuer, str):
        raise Rejected("malformed")
    if not isinstance(payload.get("sub"), str) or not payload["sub"] or "aud" not in payload:
        raise Rejected("malformed")
    return Unverified(issuer, kid, algorithm), payload


def _decode(part: str) -> dict[str, Any]:
    """Return a decoded part of a token.

    Raises Rejected for names that occur twice, and text that UTF-8 cannot encode.
    """
    try:
        decoded = urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode()
        value = json.loads(decoded, object_pairs_hook=_build_object, parse_constant=_reject_constant)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        raise Rejected("malformed") from None
    if not isinstance(value, dict):
        raise Rejected("malformed")
    return value


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object from its pairs of name and value. Raises ValueError if a name occurs twice."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError
    return dict(pairs)


def _reject_constant(name: str) -> None:
    raise ValueError(name)


def _check_times(payload: Mapping[str, Any]) -> None:
    """Raise Rejected unless the times of a token are JSON numbers of at most _MAX_TIME."""
    times = [payload.get("exp"), payload.get("iat"), payload.get("nbf", 0)]
    if any(isinstance(time, bool) or not isinstance(time, int | float) or abs(time) > _MAX_TIME for time in times):
        raise Rejected("malformed")


def _verify_signature(text: str, keys: KeySet, unverified: Unverified) -> None:
    """Verify the signature of a token. Raises Rejected."""
    key = keys.find(unverified.kid)
    if key is None or (key["kty"], key.get("crv")) not in ALGORITHMS[unverified.algorithm]:
        raise Rejected("signature")
    if key.get("alg", unverified.algorithm) != unverified.algorithm:
        raise Rejected("algorithm")
    try:
        loaded = jwt.PyJWK(dict(key), algorithm=unverified.algorithm)
        _JWS.decode_complete(text, loaded, algorithms=[unverified.algorithm])
    except (jwt.PyJWTError, ValueError):
        raise Rejected("signature") from None


def _find_problem(payload: Mapping[str, Any], credential: Requirements, now: int) -> str | None:
    """Return why a credential does not accept signed claims, or None."""
    audience = payload["aud"] if isinstance(payload["aud"], list) else [payload["aud"]]
    if not any(isinstance(entry, str) and entry in credential.audiences for entry in audience):
        return "audience"
    if payload["exp"] <= now - TOLERANCE:
        return "expired"
    if max(payload.get("nbf", 0), payload["iat"]) > now + TOLERANCE:
        return "not_yet_valid"
    if payload["exp"] - payload["iat"] > MAX_LIFETIME:
        return "claim:exp"
    if mismatch := claims.find_mismatch(payload, credential.claims):
        return f"claim:{mismatch}"
    if credential.owner_claim and not _names_owner(payload, credential.owner_claim):
        return "owner"
    if credential.single_use and not (isinstance(payload.get("jti"), str) and payload["jti"]):
        return "single_use"
    return None


def _names_owner(payload: Mapping[str, Any], name: str) -> bool:
    """Return whether a claim can name an owner: a non-empty text. The claim `email` requires `email_verified`."""
    if name == "email" and payload.get("email_verified") is not True:
        return False
    return isinstance(payload.get(name), str) and bool(payload[name])
