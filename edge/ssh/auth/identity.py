"""Identifies an SSH client. Finds the grant (account and ACL) of its key or certificate in the store."""

from collections.abc import Callable

from edge.store import grants, threads
from edge.store.records import Grant, Unavailable

UNKNOWN_KEY = (  # one message for all rejected keys: it must not reveal which credentials exist
    "This key cannot sign in here: it belongs to no active SSH credential and no valid user certificate. "
    "To use it, create an SSH credential with this key."
)


class Identity:
    """The identity of one client: the keys that it has presented, and its grant.

    The grant belongs to the key or certificate with which the client has signed.
    """

    def __init__(self, tries: int) -> None:
        self._tries_left = tries
        self.has_rejected_key = self.is_store_away = False
        self._key_id = ""
        self._grants: dict[tuple[str, ...], Grant | None] = {}
        self._candidate: Grant | None = None
        self._grant: Grant | None = None

    @property
    def grant(self) -> Grant:
        """Return the grant of this client. Raises PermissionError if the client has not signed in."""
        if self._grant is None:
            raise PermissionError("the SSH client must sign in before it uses the gateway")
        return self._grant

    def on_certificate(self, key_id: str) -> None:
        """Store the key id of the presented certificate, or "" for a key without certificate."""
        self._key_id = key_id

    async def has_key(self, fingerprint: str) -> bool:
        """Return whether an active credential has this public key."""
        return await self._find(grants.find_by_key, fingerprint)

    async def has_certificate_by(self, authority: str) -> bool:
        """Return whether the store has an active certificate of `authority` with the presented key id."""
        return await self._find(grants.find_by_certificate, authority, self._key_id)

    def on_signature(self) -> None:
        """Sign in the client. Its signature belongs to the key or certificate that was looked up last."""
        self._grant = self._candidate

    def on_rejected_key(self) -> bool:
        """Count a rejected key. Return whether the client has no tries left."""
        self.has_rejected_key = True
        self._tries_left -= 1
        return self._tries_left <= 0

    async def _find(self, find: Callable[..., Grant | None], *key: str) -> bool:
        """Return whether the store has a grant for a key or certificate.

        The result is cached: ssh presents each key twice, first without and then with a signature.
        """
        if key not in self._grants:
            try:
                self._grants[key] = await threads.call(find, *key)
            except Unavailable:
                self.is_store_away = True
                return False
        self._candidate = self._grants[key]
        return self._candidate is not None
