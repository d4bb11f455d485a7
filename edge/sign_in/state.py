"""The state parameter of a sign-in: encrypted, and bound to a host, a route and a browser. Pure."""

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MAX_AGE = 600  # seconds
_NONCE = 12  # bytes
_VERSION = 1


@dataclass(frozen=True)
class State:
    """A sign-in in progress.

    `audience` names the route and the digest of its module. `login` is the digest of the login cookie, `verifier` that
    of PKCE. `began` is a Unix second.
    """

    host: str
    account: str
    edge: str
    route: str
    audience: str
    login: str
    nonce: str
    verifier: str
    path: str
    began: int

    @property
    def challenge(self) -> str:
        """Return the PKCE challenge (S256) of the verifier."""
        return _text(hashlib.sha256(self.verifier.encode()).digest())


def digest(login: str) -> str:
    """Return the digest of a login cookie."""
    return _text(hashlib.sha256(login.encode()).digest())


def seal(state: State, kid: str, key: bytes) -> str:
    """Return a state encrypted with an AES key of 32 bytes, which `kid` names."""
    nonce = os.urandom(_NONCE)
    plain = json.dumps({"v": _VERSION, **asdict(state)}, separators=(",", ":")).encode()
    return f"{kid}.{_text(nonce + AESGCM(key).encrypt(nonce, plain, kid.encode()))}"


def unseal(text: str, keys: Mapping[str, bytes], now: float) -> State | None:
    """Return a state, or None if it is malformed, of an unknown key, or older than MAX_AGE."""
    kid, _, sealed = text.partition(".")
    key = keys.get(kid)
    if key is None:
        return None
    try:
        data = base64.urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4))
        plain = json.loads(AESGCM(key).decrypt(data[:_NONCE], data[_NONCE:], kid.encode()))
    except (binascii.Error, ValueError, InvalidTag):
        return None
    if plain.pop("v") != _VERSION:
        return None
    state = State(**plain)
    return state if state.began - 1 <= now <= state.began + MAX_AGE else None


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
