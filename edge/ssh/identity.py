"""Who a client is: the grant of the key that it has signed with, by the records."""

import asyncio
from collections.abc import Callable

from edge.store.records import Grant, Store, Unavailable

UNKNOWN_KEY = (  # the same for every key, so that it reveals no account
    "This key cannot sign in here: no active SSH credential and no valid user certificate has it. "
    "To use it, create an SSH credential with it."
)


class Identity:
    """The keys that one client has presented, and the grant of the one it has signed with; it has so many tries."""

    def __init__(self, store: Store, tries: int) -> None:
        self._store, self._tries = store, tries
        self.has_failed = self.is_store_away = False
        self._certificate = ""
        self._known: dict[tuple[str, ...], Grant | None] = {}
        self._candidate: Grant | None = None
        self._grant: Grant | None = None

    @property
    def grant(self) -> Grant:
        """Return the grant of this client; PermissionError while it has not signed in."""
        if self._grant is None:
            raise PermissionError("must sign in first")
        return self._grant

    def presents(self, certificate: str) -> None:
        """Hear the key id of the certificate that comes next, empty for a plain key."""
        self._certificate = certificate

    async def has_key(self, fingerprint: str) -> bool:
        """Tell whether a key is one of a credential that may act."""
        return await self._ask(self._store.find_grant_by_key, fingerprint)

    async def has_certificate_of(self, authority: str) -> bool:
        """Tell whether an authority has signed the certificate that was presented, and it may act."""
        return await self._ask(self._store.find_grant_by_certificate, authority, self._certificate)

    def proved(self) -> None:
        """Hear that the holder of the key that was asked about last has signed with it."""
        self._grant = self._candidate

    def failed(self) -> bool:
        """Hear that a key was not let in; tell whether it was the last try."""
        self.has_failed = True
        self._tries -= 1
        return self._tries <= 0

    async def _ask(self, ask: Callable[..., Grant | None], *asked: str) -> bool:
        """Tell whether a key is known; ssh presents it twice, first to ask and then with a signature."""
        if asked not in self._known:
            try:
                self._known[asked] = await asyncio.to_thread(ask, *asked)
            except Unavailable:
                self.is_store_away = True
                return False
        self._candidate = self._known[asked]
        return self._candidate is not None
