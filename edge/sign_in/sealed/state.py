"""The state parameter of a sign-in: encrypted, and bound to a host, a route and a browser. This file does no I/O."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from edge.sign_in.sealed import sealing

MAX_AGE = 600  # seconds from the start of a sign-in until its state parameter expires
_PURPOSE = b"state"
_VERSION = 1


@dataclass(frozen=True)
class State:
    """A sign-in in progress: the content of the state parameter.

    `audience` identifies the route and the version of its OAuth module. `login` is the digest of the login cookie,
    which binds the sign-in to a browser. `verifier` is the PKCE verifier. `path` is the path to which the visitor
    returns. `began` is a Unix second.
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
        return sealing.encode(hashlib.sha256(self.verifier.encode()).digest())


def digest(login: str) -> str:
    """Return the digest of a login cookie."""
    return sealing.encode(hashlib.sha256(login.encode()).digest())


def seal(state: State, kid: str, key: bytes) -> str:
    """Encrypt a state with an AES key of 32 bytes, which has the id `kid`."""
    plain = json.dumps({"v": _VERSION, **asdict(state)}, separators=(",", ":")).encode()
    return sealing.seal(plain, kid, key, _PURPOSE)


def unseal(text: str, keys: Mapping[str, bytes], now: float) -> State | None:
    """Decrypt the state of a sign-in.

    Return None if it is malformed, encrypted with an unknown key, or older than MAX_AGE.
    """
    plain = sealing.unseal(text, keys, _PURPOSE)
    if plain is None:
        return None
    fields = json.loads(plain)
    if fields.pop("v") != _VERSION:
        return None
    state = State(**fields)
    return state if state.began - 1 <= now <= state.began + MAX_AGE else None
