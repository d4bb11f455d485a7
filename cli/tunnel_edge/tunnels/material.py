"""The key of the connections of one run, and its renewal."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tunnel_edge.tunnels.gateways import SignIn


class SignIns(Protocol):
    """Provides the key and certificate for the connections of one run. Calls of the API block."""

    def current(self) -> SignIn:
        """Return the key of the next connection. Raises CommandError."""


@dataclass(frozen=True)
class Material:
    """A key, maybe with a certificate, in a form that can be passed to another process."""

    username: str
    private_key: bytes
    certificate: str = ""
    renew_at: float | None = None

    def load(self) -> SignIn:
        """Return the key as asyncssh uses it."""
        import asyncssh

        key = asyncssh.import_private_key(self.private_key)
        pair = (key, asyncssh.import_certificate(self.certificate)) if self.certificate else key
        return SignIn(self.username, (pair,), self.renew_at)


@dataclass
class Obtained:
    """Provides a key that the service knows. `obtain` gets the old key and certificate, and returns renewed ones."""

    material: Material
    obtain: Callable[[Material], Material]

    def current(self) -> SignIn:
        if self.material.renew_at is not None and time.time() >= self.material.renew_at:
            self.material = self.obtain(self.material)
        return self.material.load()
