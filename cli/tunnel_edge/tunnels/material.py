"""The key with which the connections of one tunnel command sign in, and the renewal of its certificate."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tunnel_edge.tunnels.gateways import SignIn


class SignIns(Protocol):
    """Provides the key and certificate for each connection. `current` blocks while it calls the API."""

    def current(self) -> SignIn:
        """Return the key for the next connection. Raises CommandError."""


@dataclass(frozen=True)
class Material:
    """A private key, maybe with a certificate, as bytes that can be sent to another process."""

    username: str
    private_key: bytes
    certificate: str = ""
    renew_at: float | None = None

    def load(self) -> SignIn:
        """Return the key and certificate as objects of asyncssh."""
        import asyncssh

        key = asyncssh.import_private_key(self.private_key)
        pair = (key, asyncssh.import_certificate(self.certificate)) if self.certificate else key
        return SignIn(self.username, (pair,), self.renew_at)


@dataclass
class Obtained:
    """Provides a key that the service has certified or stored.

    After `material.renew_at`, `obtain` requests a new certificate for the key.
    """

    material: Material
    obtain: Callable[[Material], Material]

    def current(self) -> SignIn:
        if self.material.renew_at is not None and time.time() >= self.material.renew_at:
            self.material = self.obtain(self.material)
        return self.material.load()
